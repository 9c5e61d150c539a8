package jsonplan

import "unsafe"

// Cursor walks over a JSON text, value by value, and keeps nothing of it. What
// it says are positions in the text; Bad stands for where the text is no JSON, and
// may be handed to each method in place of a position. A value may be walked over
// twice. Not safe for concurrent use.
type Cursor struct{ r reader }

// Bad is no position.
const Bad = bad

// NewCursor returns a cursor over data, which must not change meanwhile, and
// the position of the value that data is.
func NewCursor(data []byte) (*Cursor, int) {
	c := &Cursor{reader{data: unsafe.String(unsafe.SliceData(data), len(data))}}
	return c, c.r.space(0)
}

// Seek returns the position of a value inside of the one at i: path leads to it, by
// names of members and indices of elements. It is Bad where there is none. What
// comes after it is not looked at.
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

// Enter enters the object or list at i. It returns where the first member or
// element is; where there is none, more is false and end after the value.
func (c *Cursor) Enter(i int) (next int, more bool) {
	if c.r.at(i) == '[' {
		return c.r.open(i, '[', ']')
	}
	return c.r.open(i, '{', '}')
}

// Next returns where the member or element is that follows the one that ended at
// i; where there is none, more is false and next after the object or list, which
// is one that closes with end.
func (c *Cursor) Next(i int, end byte) (next int, more bool) { return c.r.next(i, end) }

// Leave leaves the object or list entered last, before its end.
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

// Ended reports whether nothing but space follows the position.
func (c *Cursor) Ended(i int) bool { return c.r.ended(i) }
