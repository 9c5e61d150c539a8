package jsonplan

import (
	"encoding/binary"
	"math/bits"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"mainstay.dev/mainstay/internal/codec/precheck"
)

// reader decodes a JSON text. The position is not a field, but a parameter and result of the
// methods, so that it stays in a register.
type reader struct {
	data  string
	depth int
	// without is the name of the struct members to skip; empty means none.
	without string
	// copyStrings means that strings must not share memory with data.
	copyStrings bool
	// meter counts the memory of the lists, map entries and structs, unless unlimited is true.
	meter     precheck.Meter
	unlimited bool
}

// allocate counts memory before it is allocated. It returns false if the object exceeds the limit.
func (r *reader) allocate(bytes uintptr) bool {
	return r.unlimited || r.meter.Add(int(bytes)) == nil
}

// maxDepth is the maximum nesting depth. Deeper documents are decoded with sigs.k8s.io/json, which has a
// higher limit.
const maxDepth = 1000

// at returns the byte at a position. At the end of the text, it returns 0, which is not valid in JSON.
func (r *reader) at(i int) byte {
	if uint(i) < uint(len(r.data)) {
		return r.data[i]
	}
	return 0
}

// space returns the first position from i on that is not white space.
func (r *reader) space(i int) int {
	for uint(i) < uint(len(r.data)) {
		if c := r.data[i]; c > ' ' || c != ' ' && c != '\n' && c != '\t' && c != '\r' {
			break
		}
		i++
	}
	return i
}

// literal reads the literal want at i.
func (r *reader) literal(i int, want string) int {
	if uint(i) < uint(len(r.data)) && len(r.data)-i >= len(want) && r.data[i:i+len(want)] == want {
		return i + len(want)
	}
	return invalid
}

// open reads the opening character of an object or list, and returns the position of the first member or
// element. If the object or list is empty, open returns the position after it and false.
func (r *reader) open(i int, begin, end byte) (_ int, more bool) {
	if r.at(i) != begin || r.depth == maxDepth {
		return invalid, false
	}
	i = r.space(i + 1)
	if r.at(i) == end {
		return i + 1, false
	}
	r.depth++
	return i, true
}

// next reads the separator after a member or element that ends at i, and returns the position of the next
// member or element. If there is none, next returns the position after the object or list and false.
func (r *reader) next(i int, end byte) (_ int, more bool) {
	if i == invalid {
		return invalid, false
	}
	i = r.space(i)
	switch r.at(i) {
	case ',':
		return r.space(i + 1), true
	case end:
		r.depth--
		return i + 1, false
	}
	return invalid, false
}

// retain returns s, or a copy if copyStrings is set.
func (r *reader) retain(s string) string {
	if r.copyStrings {
		return strings.Clone(s)
	}
	return s
}

// colon reads the colon after the name of a member that ends at i, and returns the position of the
// value.
func (r *reader) colon(i int) int {
	if i == invalid {
		return invalid
	}
	i = r.space(i)
	if r.at(i) != ':' {
		return invalid
	}
	return r.space(i + 1)
}

// unescapedPrefix returns the length of the prefix of b that needs no decoding in a JSON string:
// ASCII without control characters, quotes and backslashes.
func unescapedPrefix(b []byte) int {
	i := 0
	for ; i+8 <= len(b); i += 8 {
		x := binary.LittleEndian.Uint64(b[i:])
		quote, slash := x^'"'*ones, x^'\\'*ones
		if m := ((x-0x20*ones)&^x | (quote-ones)&^quote | (slash-ones)&^slash | x) & highs; m != 0 {
			return i + bits.TrailingZeros64(m)>>3
		}
	}
	for ; i < len(b); i++ {
		if c := b[i]; c < 0x20 || c >= utf8.RuneSelf || c == '"' || c == '\\' {
			break
		}
	}
	return i
}

// text reads the string at i.
func (r *reader) text(i int) (string, int) {
	if r.at(i) != '"' {
		return "", invalid
	}
	start := i + 1
	i = start + unescapedPrefix(bytesOf(r.data[start:]))
	if r.at(i) == '"' {
		return r.data[start:i], i + 1
	}
	return r.escapedText(start, i)
}

// escapedText reads the rest of a string with escapes or non-ASCII characters. The string starts at
// start, and its text up to i needs no decoding.
func (r *reader) escapedText(start, i int) (string, int) {
	var unescaped []byte
	for {
		i += unescapedPrefix(bytesOf(r.data[i:]))
		switch c := r.at(i); {
		case c == '"':
			if unescaped == nil {
				return r.data[start:i], i + 1
			}
			return string(append(unescaped, r.data[start:i]...)), i + 1
		case c == '\\':
			unescaped = append(unescaped, r.data[start:i]...)
			if unescaped, i = r.escape(unescaped, i+1); i == invalid {
				return "", invalid
			}
			start = i
		default:
			if i = r.nonASCII(i); i == invalid {
				return "", invalid
			}
		}
	}
}

// nonASCII reads a UTF-8 character. It rejects ASCII characters, because callers handle the ASCII characters
// that are valid in a string.
func (r *reader) nonASCII(i int) int {
	if r.at(i) < utf8.RuneSelf {
		return invalid
	}
	found, size := utf8.DecodeRuneInString(r.data[i:])
	if found == utf8.RuneError && size == 1 {
		return invalid
	}
	return i + size
}

// escape appends the decoded escape sequence to dst. i is the position after the backslash. escape returns
// invalid for a surrogate without its counterpart, so that another decoder is used.
func (r *reader) escape(dst []byte, i int) ([]byte, int) {
	switch c := r.at(i); c {
	case '"', '\\', '/':
		return append(dst, c), i + 1
	case 'b':
		return append(dst, '\b'), i + 1
	case 'f':
		return append(dst, '\f'), i + 1
	case 'n':
		return append(dst, '\n'), i + 1
	case 'r':
		return append(dst, '\r'), i + 1
	case 't':
		return append(dst, '\t'), i + 1
	case 'u':
		code, ok := r.hex(i + 1)
		if !ok {
			return dst, invalid
		}
		if !utf16.IsSurrogate(code) {
			return utf8.AppendRune(dst, code), i + 5
		}
		if r.at(i+5) == '\\' && r.at(i+6) == 'u' {
			if low, ok := r.hex(i + 7); ok {
				if code = utf16.DecodeRune(code, low); code != utf8.RuneError {
					return utf8.AppendRune(dst, code), i + 11
				}
			}
		}
		return dst, invalid
	}
	return dst, invalid
}

func (r *reader) hex(i int) (code rune, ok bool) {
	for j := i; j < i+4; j++ {
		c := r.at(j)
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c|0x20 >= 'a' && c|0x20 <= 'f':
			c = c | 0x20 - 'a' + 10
		default:
			return 0, false
		}
		code = code<<4 | rune(c)
	}
	return code, true
}

// integer reads a number of at most 18 digits, without a fraction or an exponent.
func (r *reader) integer(i int) (int64, int) {
	negative := r.at(i) == '-'
	if negative {
		i++
	}
	start, n := i, int64(0)
	for c := r.at(i); c >= '0' && c <= '9'; c = r.at(i) {
		n = n*10 + int64(c-'0')
		if i++; i-start > 18 {
			return 0, invalid
		}
	}
	if i == start || r.data[start] == '0' && i-start > 1 {
		return 0, invalid
	}
	if c := r.at(i); c == '.' || c == 'e' || c == 'E' {
		return 0, invalid
	}
	if negative {
		n = -n
	}
	return n, i
}

// number returns the position after a number.
func (r *reader) number(i int) int {
	digits := func() bool {
		start := i
		for c := r.at(i); c >= '0' && c <= '9'; c = r.at(i) {
			i++
		}
		return i > start
	}
	if r.at(i) == '-' {
		i++
	}
	first := i
	if !digits() || r.data[first] == '0' && i-first > 1 {
		return invalid
	}
	if r.at(i) == '.' {
		i++
		if !digits() {
			return invalid
		}
	}
	if c := r.at(i); c == 'e' || c == 'E' {
		i++
		if c := r.at(i); c == '+' || c == '-' {
			i++
		}
		if !digits() {
			return invalid
		}
	}
	return i
}

// skip returns the position after a value of any type.
func (r *reader) skip(i int) int {
	switch r.at(i) {
	case '{':
		i, more := r.open(i, '{', '}')
		for more {
			at := r.colon(r.skipText(i))
			if at == invalid {
				return invalid
			}
			i, more = r.next(r.skip(at), '}')
		}
		return i
	case '[':
		i, more := r.open(i, '[', ']')
		for more {
			i, more = r.next(r.skip(i), ']')
		}
		return i
	case '"':
		return r.skipText(i)
	case 't':
		return r.literal(i, "true")
	case 'f':
		return r.literal(i, "false")
	case 'n':
		return r.literal(i, "null")
	}
	return r.number(i)
}

func (r *reader) skipText(i int) int {
	if r.at(i) != '"' {
		return invalid
	}
	var unescaped [8]byte
	for i++; ; {
		i += unescapedPrefix(bytesOf(r.data[i:]))
		switch c := r.at(i); {
		case c == '"':
			return i + 1
		case c == '\\':
			if _, i = r.escape(unescaped[:0], i+1); i == invalid {
				return invalid
			}
		default:
			if i = r.nonASCII(i); i == invalid {
				return invalid
			}
		}
	}
}

// document decodes a value into maps, slices and scalars.
func (r *reader) document(i int) (any, int) {
	switch c := r.at(i); c {
	case '{':
		return r.documentMap(i)
	case '[':
		return r.documentList(i)
	case '"':
		return r.text(i)
	case 't':
		return true, r.literal(i, "true")
	case 'f':
		return false, r.literal(i, "false")
	case 'n':
		return nil, r.literal(i, "null")
	}
	if n, end := r.integer(i); end != invalid {
		return n, end
	}
	end := r.number(i)
	if end == invalid {
		return nil, invalid
	}
	text := r.data[i:end]
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return n, end
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return nil, invalid
	}
	return f, end
}

func (r *reader) documentMap(i int) (map[string]any, int) {
	m := map[string]any{}
	i, more := r.open(i, '{', '}')
	for more {
		name, after := r.text(i)
		at := r.colon(after)
		if at == invalid {
			return nil, invalid
		}
		v, end := r.document(at)
		before := len(m)
		if m[name] = v; len(m) == before {
			return nil, invalid
		}
		i, more = r.next(end, '}')
	}
	return m, i
}

func (r *reader) documentList(i int) ([]any, int) {
	list := []any{}
	i, more := r.open(i, '[', ']')
	for more {
		var v any
		v, i = r.document(i)
		list = append(list, v)
		i, more = r.next(i, ']')
	}
	return list, i
}
