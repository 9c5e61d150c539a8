package jsonplan

import "unsafe"

// Cursor iterates over a JSON text without storing values. Methods return positions in the text, or Invalid
// for invalid JSON; all methods except Raw accept Invalid as a position. A value may be visited more than
// once. A Cursor is not safe for concurrent use.
type Cursor struct{ r reader }

// Invalid is the position that methods return for invalid JSON.
const Invalid = invalid

// NewCursor returns a cursor over data and the position of the root value. The cursor references
// data, which must not be modified while it is in use.
func NewCursor(data []byte) (*Cursor, int) {
	c := &Cursor{reader{data: unsafe.String(unsafe.SliceData(data), len(data))}}
	return c, c.r.space(0)
}

// Seek follows a path of member names (string) and list indexes (int) from the value at i, and returns the
// position of the value at the end of the path. It returns Invalid if there is no such value, and does not
// read the text after the value.
func (c *Cursor) Seek(i int, path ...any) int {
	for _, step := range path {
		if i = c.r.seekStep(i, step); i == invalid {
			break
		}
	}
	return i
}

// At returns the byte at position i, which identifies the type of the value: '{', '[', '"', and so
// on. It returns 0 at the end of the text.
func (c *Cursor) At(i int) byte { return c.r.at(i) }

// Enter enters the object or list at i, and returns the position of its first member or element.
// For an empty object or list, more is false and next is the end of the value.
func (c *Cursor) Enter(i int) (next int, more bool) {
	if c.r.at(i) == '[' {
		return c.r.open(i, '[', ']')
	}
	return c.r.open(i, '{', '}')
}

// Next returns the position of the next member or element. i is the position after the current member or
// element, and end is the closing character of the object or list. If there are no more, more is false and
// next is the end of the object or list.
func (c *Cursor) Next(i int, end byte) (next int, more bool) { return c.r.next(i, end) }

// Leave leaves the object or list that was entered last, without reading the rest of it.
func (c *Cursor) Leave() { c.r.depth-- }

// Name returns the name of the member at i and the position of its value. The name shares memory
// with the text unless it contains escapes.
func (c *Cursor) Name(i int) (name string, value int) {
	name, i = c.r.text(i)
	return name, c.r.colon(i)
}

// Text returns the decoded string at i and the position after it. The string shares memory with the
// text unless it contains escapes.
func (c *Cursor) Text(i int) (string, int) { return c.r.text(i) }

// Skip returns the position after the value at i.
func (c *Cursor) Skip(i int) int { return c.r.skip(i) }

// Raw returns the text between two positions. It shares memory with the text.
func (c *Cursor) Raw(from, to int) string { return c.r.data[from:to] }

// AppendText appends the decoded string at i to dst, and returns the position after it.
func (c *Cursor) AppendText(dst []byte, i int) ([]byte, int) {
	r := &c.r
	if r.at(i) != '"' {
		return dst, invalid
	}
	start := i + 1
	for i = start; ; {
		i += unescapedPrefix(bytesOf(r.data[i:]))
		switch b := r.at(i); {
		case b == '"':
			return append(dst, r.data[start:i]...), i + 1
		case b == '\\':
			dst = append(dst, r.data[start:i]...)
			if dst, i = r.escape(dst, i+1); i == invalid {
				return dst, invalid
			}
			start = i
		default:
			if i = r.nonASCII(i); i == invalid {
				return dst, invalid
			}
		}
	}
}

// AtEnd reports whether only white space follows position i.
func (c *Cursor) AtEnd(i int) bool { return c.r.atEnd(i) }
