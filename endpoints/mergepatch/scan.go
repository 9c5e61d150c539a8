package mergepatch

import (
	"bytes"
	"encoding/json"
)

// The functions here walk over JSON that is known to be valid, and check
// nothing.

// space returns the first position from i on that is not space.
func space(text []byte, i int) int {
	for i < len(text) && (text[i] == ' ' || text[i] == '\n' || text[i] == '\t' || text[i] == '\r') {
		i++
	}
	return i
}

// next returns where the member or element after the one that ends at i begins,
// or where the closing bracket is.
func next(text []byte, i int) int {
	i = space(text, i)
	if text[i] == ',' {
		return space(text, i+1)
	}
	return i
}

// skip returns the end of the value at i.
func skip(text []byte, i int) int {
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

// unquote returns the text of a string.
func unquote(quoted []byte) string {
	if bytes.IndexByte(quoted, '\\') < 0 {
		return string(quoted[1 : len(quoted)-1])
	}
	var s string
	if err := json.Unmarshal(quoted, &s); err != nil {
		return string(quoted) // not valid after all: like no other name
	}
	return s
}
