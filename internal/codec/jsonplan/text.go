package jsonplan

import (
	"encoding/binary"
	"math"
	"math/bits"
	"strconv"
	"unicode/utf8"
	"unsafe"
)

// ones and highs consist of eight bytes 0x01 and 0x80. They are used to process a string in words of eight
// bytes.
const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// specialBytes returns a word in which the highest bit of a byte is set if the byte must be escaped
// in a JSON string with HTML escaping: control characters, quote, backslash, < > &, and non-ASCII.
// Bytes above the lowest marked byte may be marked in error.
func specialBytes(x uint64) uint64 {
	quote := (x | 0x04*ones) ^ 0x26*ones // " and &
	angle := (x | 0x02*ones) ^ 0x3e*ones // < and >
	slash := x ^ 0x5c*ones
	return ((x-0x20*ones)&^x | (quote-ones)&^quote | (angle-ones)&^angle | (slash-ones)&^slash | x) & highs
}

// plainPrefix returns the length of the prefix of b that needs no escapes.
func plainPrefix(b []byte) int {
	i := 0
	for ; i+8 <= len(b); i += 8 {
		if m := specialBytes(binary.LittleEndian.Uint64(b[i:])); m != 0 {
			return i + bits.TrailingZeros64(m)>>3
		}
	}
	for ; i < len(b); i++ {
		if !isPlain(b[i]) {
			return i
		}
	}
	return i
}

func isPlain(c byte) bool {
	return c >= 0x20 && c < utf8.RuneSelf && c != '"' && c != '\\' && c != '<' && c != '>' && c != '&'
}

// bytesOf returns the bytes of a string without a copy. They must not be modified.
func bytesOf(s string) []byte { return unsafe.Slice(unsafe.StringData(s), len(s)) }

// appendString appends a string in quotes.
func appendString(dst []byte, s string) []byte {
	n := plainPrefix(bytesOf(s))
	dst = append(dst, '"')
	if n == len(s) {
		dst = append(dst, s...)
		return append(dst, '"')
	}
	return append(appendEscaped(dst, s, n), '"')
}

// appendEscaped appends a string that needs no escapes up to position from.
func appendEscaped(dst []byte, s string, from int) []byte {
	for start, i := 0, from; ; {
		if i == len(s) {
			return append(dst, s[start:]...)
		}
		c, size := rune(s[i]), 1
		if c >= utf8.RuneSelf {
			c, size = utf8.DecodeRuneInString(s[i:])
			if !(c == utf8.RuneError && size == 1) && c != '\u2028' && c != '\u2029' {
				i += size
				i += plainPrefix(bytesOf(s[i:]))
				continue
			}
		}
		dst = append(dst, s[start:i]...)
		dst = appendEscape(dst, c)
		start = i + size
		i = start + plainPrefix(bytesOf(s[start:]))
	}
}

const hexDigits = "0123456789abcdef"

func appendEscape(dst []byte, c rune) []byte {
	switch c {
	case '"', '\\':
		return append(dst, '\\', byte(c))
	case '\b':
		return append(dst, '\\', 'b')
	case '\f':
		return append(dst, '\\', 'f')
	case '\n':
		return append(dst, '\\', 'n')
	case '\r':
		return append(dst, '\\', 'r')
	case '\t':
		return append(dst, '\\', 't')
	}
	return append(dst, '\\', 'u', hexDigits[c>>12&15], hexDigits[c>>8&15], hexDigits[c>>4&15], hexDigits[c&15])
}

// appendFloat appends a number in the format of encoding/json, which is the format of ECMAScript. It returns
// false for values that JSON cannot represent.
func appendFloat(dst []byte, f float64, bitSize int) ([]byte, bool) {
	if math.IsInf(f, 0) || math.IsNaN(f) {
		return dst, false
	}
	format := byte('f')
	if abs := math.Abs(f); abs != 0 {
		if bitSize == 64 && (abs < 1e-6 || abs >= 1e21) || bitSize == 32 && (float32(abs) < 1e-6 || float32(abs) >= 1e21) {
			format = 'e'
		}
	}
	dst = strconv.AppendFloat(dst, f, format, -1, bitSize)
	if n := len(dst); format == 'e' && n >= 4 && dst[n-4] == 'e' && dst[n-3] == '-' && dst[n-2] == '0' {
		dst[n-2] = dst[n-1] // e-09 becomes e-9
		dst = dst[:n-1]
	}
	return dst, true
}

// isFieldSet reports whether b is a tree of objects, like managed fields, that encoding/json would
// output unchanged.
func isFieldSet(b []byte) bool {
	depth, i := 0, 0
	for i < len(b) {
		// Each value must be an object.
		if b[i] != '{' {
			return false
		}
		i++
		if depth++; depth > maxFieldDepth {
			return false
		}
		if i < len(b) && b[i] == '}' {
			i++
			depth--
			for i < len(b) && b[i] == '}' && depth > 0 {
				i++
				depth--
			}
			if depth == 0 {
				return i == len(b)
			}
			if i == len(b) || b[i] != ',' {
				return false
			}
			i++
		}
		n := keyLength(b[i:])
		if n < 0 {
			return false
		}
		i += n
	}
	return false
}

// maxFieldDepth is the maximum depth of managed fields. It is lower than the limit of
// encoding/json.
const maxFieldDepth = 1000

// keyLength returns the length of a key with its quotes and colon. It returns -1 if b does not
// start with a key in the format of encoding/json.
func keyLength(b []byte) int {
	if len(b) < 3 || b[0] != '"' {
		return -1
	}
	for i := 1; i < len(b); {
		for i < len(b) && plainBytes[b[i]] {
			i++
		}
		if i+1 >= len(b) {
			return -1
		}
		switch b[i] {
		case '"':
			if b[i+1] != ':' {
				return -1
			}
			return i + 2
		case '\\':
			if b[i+1] != '"' && b[i+1] != '\\' {
				return -1
			}
			i += 2
		default:
			return -1
		}
	}
	return -1
}

// plainBytes contains true for each byte that needs no escape.
var plainBytes = func() (table [256]bool) {
	for c := range table {
		table[c] = isPlain(byte(c))
	}
	return table
}()
