package ownership

import (
	"encoding/binary"
	"strconv"
	"strings"
	"unicode/utf8"
)

// An encoder encodes sets in the format of FieldsV1.
type encoder struct {
	out []byte
	// inner is the text of an element before it is quoted.
	inner []byte
}

// encode encodes the members of a set. The result is valid until the next call.
func (e *encoder) encode(set []node) []byte {
	e.out = append(e.out[:0], '{')
	e.list(set)
	e.out = append(e.out, '}')
	return e.out
}

func (e *encoder) list(set []node) {
	for i := range set {
		if last := e.out[len(e.out)-1]; last != '{' {
			e.out = append(e.out, ',')
		}
		n := &set[i]
		e.element(n.element)
		if n.mark&member != 0 && len(n.children) > 0 {
			e.out = append(e.out, `:{".":{}`...)
		} else {
			e.out = append(e.out, ':', '{')
		}
		e.list(n.children)
		e.out = append(e.out, '}')
	}
}

func (e *encoder) element(s element) {
	if s == "" || s[0] < markKey {
		e.out = append(e.out, '"', 'f', ':')
		e.out = append(appendEscaped(e.out, s), '"')
		return
	}
	switch s[0] {
	case markKey:
		e.inner = appendKey(append(e.inner[:0], 'k', ':'), s[1:])
	case markValue:
		e.inner, _ = appendScalarJSON(append(e.inner[:0], 'v', ':'), s[1:])
	default:
		n := int64(binary.BigEndian.Uint64([]byte(s[1:])) ^ (1 << 63))
		e.inner = strconv.AppendInt(append(e.inner[:0], 'i', ':'), n, 10)
	}
	e.out = append(e.out, '"')
	e.out = append(appendEscaped(e.out, e.inner), '"')
}

func appendKey(dst []byte, s string) []byte {
	open := byte('{')
	for s[0] == fieldFollows {
		name, rest, _ := strings.Cut(s[1:], "\x00")
		dst = append(dst, open, '"')
		dst = append(appendEscaped(dst, name), '"', ':')
		dst, s = appendScalarJSON(dst, rest)
		open = ','
	}
	if open == '{' {
		dst = append(dst, open)
	}
	return append(dst, '}')
}

// appendScalarJSON appends the scalar at the beginning of s as JSON. It also returns the rest of s.
func appendScalarJSON(dst []byte, s string) ([]byte, string) {
	switch s[0] {
	case scalarNumber:
		return strconv.AppendInt(dst, numberAt(s[1:]), 10), s[9:]
	case scalarString:
		text, rest, _ := strings.Cut(s[1:], "\x00")
		return append(appendEscapedHTML(append(dst, '"'), text), '"'), rest
	}
	return strconv.AppendBool(dst, s[1] == 1), s[2:]
}

// appendEscaped appends the content of a JSON string with the escapes of field names. Bytes outside ASCII
// are copied, even if they are invalid UTF-8.
func appendEscaped[S string | []byte](dst []byte, s S) []byte {
	start := 0
	for i := range len(s) {
		if c := s[i]; c < ' ' || c == '"' || c == '\\' {
			dst = appendEscape(append(dst, s[start:i]...), c)
			start = i + 1
		}
	}
	return append(dst, s[start:]...)
}

const hex = "0123456789abcdef"

func appendEscape(dst []byte, c byte) []byte {
	switch c {
	case '"', '\\':
		return append(dst, '\\', c)
	case '\n':
		return append(dst, '\\', 'n')
	case '\r':
		return append(dst, '\\', 'r')
	case '\t':
		return append(dst, '\\', 't')
	}
	return append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&0xf])
}

// appendEscapedHTML appends the content of a JSON string with the escapes of values. HTML characters are
// escaped, and the result is valid UTF-8.
func appendEscapedHTML(dst []byte, s string) []byte {
	for i := 0; i < len(s); {
		c := s[i]
		if c < utf8.RuneSelf {
			if c < ' ' || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
				dst = appendEscape(dst, c)
			} else {
				dst = append(dst, c)
			}
			i++
			continue
		}
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			dst = append(dst, `\ufffd`...)
		case r == '\u2028' || r == '\u2029':
			dst = append(dst, '\\', 'u', '2', '0', '2', hex[r&0xf])
		default:
			dst = append(dst, s[i:i+size]...)
		}
		i += size
	}
	return dst
}
