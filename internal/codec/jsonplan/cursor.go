package jsonplan

import "unsafe"

// Cursor iterates over a JSON text without retaining values. Its methods return positions in the
// text, or Bad for invalid JSON; every method accepts Bad as position. A value may be visited
// twice. It is not safe for concurrent use.
type Cursor struct{ r reader }

// Bad is no position.
const Bad = bad

// NewCursor returns a cursor over data, which must not be modified during its use, and the position
// of the root value.
func NewCursor(data []byte) (*Cursor, int) {
	c := &Cursor{reader{data: unsafe.String(unsafe.SliceData(data), len(data))}}
	return c, c.r.space(0)
}

// Seek returns the position of a value inside the value at i, by a path of member names and
// indexes, or Bad. It does not read the text after the value.
func (c *Cursor) Seek(i int, path ...any) int {
	for _, step := range path {
		if i = c.r.step(i, step); i == bad {
			break
		}
	}
	return i
}

// At returns the byte at i, which determines the kind of the value there.
func (c *Cursor) At(i int) byte { return c.r.at(i) }

// Enter enters the object or list at i and returns the position of its first member or element. If
// it is empty, more is false and next is the end of the value.
func (c *Cursor) Enter(i int) (next int, more bool) {
	if c.r.at(i) == '[' {
		return c.r.open(i, '[', ']')
	}
	return c.r.open(i, '{', '}')
}

// Next returns the position of the member or element after the one that ended at i. If there is
// none, more is false and next is the end of the object or list, whose closing character is end.
func (c *Cursor) Next(i int, end byte) (next int, more bool) { return c.r.next(i, end) }

// Leave leaves the most recently entered object or list before its end.
func (c *Cursor) Leave() { c.r.depth-- }

// Name returns the name of the member at i, which is a part of the text where it
// can be, and where its value is.
func (c *Cursor) Name(i int) (name string, value int) {
	name, i = c.r.text(i)
	return name, c.r.colon(i)
}

// Text returns the string at i as it is meant, which is a part of the text where it
// can be, and where it ends.
func (c *Cursor) Text(i int) (string, int) { return c.r.text(i) }

// Skip returns where the value at i ends.
func (c *Cursor) Skip(i int) int { return c.r.skip(i) }

// Raw returns a part of the text.
func (c *Cursor) Raw(from, to int) string { return c.r.data[from:to] }

// AppendText appends the string at i as it is meant, and returns where it ends.
func (c *Cursor) AppendText(dst []byte, i int) ([]byte, int) {
	r := &c.r
	if r.at(i) != '"' {
		return dst, bad
	}
	start := i + 1
	for i = start; ; {
		i += ordinary(bytesOf(r.data[i:]))
		switch b := r.at(i); {
		case b == '"':
			return append(dst, r.data[start:i]...), i + 1
		case b == '\\':
			dst = append(dst, r.data[start:i]...)
			if dst, i = r.escape(dst, i+1); i == bad {
				return dst, bad
			}
			start = i
		default:
			if i = r.beyond(i); i == bad {
				return dst, bad
			}
		}
	}
}

// Ended reports whether only white space follows the position.
func (c *Cursor) Ended(i int) bool { return c.r.ended(i) }
