// Package jsontext iterates over JSON text that is known to be valid. It may panic on invalid text. It
// decodes only member names. Positions are byte indexes.
package jsontext

import (
	"bytes"
	"encoding/json"
)

// Space returns the first position from i on that is not white space.
func Space(text []byte, i int) int {
	for i < len(text) && (text[i] == ' ' || text[i] == '\n' || text[i] == '\t' || text[i] == '\r') {
		i++
	}
	return i
}

// Next returns the position of the next member or element, or of the closing bracket. i is the position
// after the current member or element.
func Next(text []byte, i int) int {
	i = Space(text, i)
	if text[i] == ',' {
		return Space(text, i+1)
	}
	return i
}

// Skip returns the position after the value at i.
func Skip(text []byte, i int) int {
	switch text[i] {
	case '"':
		return skipString(text, i)
	case '{', '[':
		return skipNested(text, i)
	}
	for i < len(text) {
		switch text[i] {
		case ',', '}', ']', ' ', '\n', '\t', '\r':
			return i
		}
		i++
	}
	return i
}

func skipNested(text []byte, i int) int {
	for depth := 0; ; i++ {
		switch text[i] {
		case '"':
			i = skipString(text, i) - 1
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return i + 1
			}
		}
	}
}

func skipString(text []byte, i int) int {
	for i++; ; i++ {
		i += bytes.IndexByte(text[i:], '"')
		escapes := 0
		for text[i-1-escapes] == '\\' {
			escapes++
		}
		if escapes%2 == 0 {
			return i + 1
		}
	}
}

// Unquote decodes a JSON string. quoted includes the quotation marks.
func Unquote(quoted []byte) string {
	if bytes.IndexByte(quoted, '\\') < 0 {
		return string(quoted[1 : len(quoted)-1])
	}
	var s string
	if err := json.Unmarshal(quoted, &s); err != nil {
		return string(quoted) // invalid; the quotes make it different from all valid names
	}
	return s
}
