package openapi

import (
	"errors"
	"math"
	"strconv"

	"google.golang.org/protobuf/encoding/protowire"

	"mainstay.dev/mainstay/internal/codec/jsonplan"
)

// toProtobuf converts a JSON document to the protobuf message m. Values without a field in the message are
// omitted.
func toProtobuf(json []byte, m *message) ([]byte, error) {
	wire, _, err := encode(json, m)
	return wire, err
}

// encode is like toProtobuf. It also returns the number of omitted values.
func encode(json []byte, m *message) (wire []byte, left int, err error) {
	in, i := jsonplan.NewCursor(json)
	e := encoder{in: in, out: make([]byte, 0, len(json))} // usually sufficient, because protobuf is shorter than JSON
	if !in.AtEnd(e.content(m, i)) {
		return nil, 0, errors.New("the document is not JSON that can be read")
	}
	return e.out, e.left, nil
}

// encoder writes a JSON text as protobuf in one pass. Its methods take the offset of a value and
// return the offset of its end, or jsonplan.Invalid.
type encoder struct {
	in  *jsonplan.Cursor
	out []byte
	// left is the number of omitted values.
	left int
}

// begin starts a length-delimited field. end receives the result of begin and inserts the length.
// begin reserves space for a short length; end moves the content if the length is longer.
func (e *encoder) begin(number protowire.Number) int {
	e.out = protowire.AppendTag(e.out, number, protowire.BytesType)
	e.out = append(e.out, 0)
	return len(e.out)
}

func (e *encoder) end(start int) {
	n := len(e.out) - start
	if n < 0x80 {
		e.out[start-1] = byte(n)
		return
	}
	more := protowire.SizeVarint(uint64(n)) - 1
	for range more {
		e.out = append(e.out, 0)
	}
	copy(e.out[start+more:], e.out[start:start+n])
	protowire.AppendVarint(e.out[:start-1], uint64(n))
}

// omit skips the value at i, and counts it as omitted.
func (e *encoder) omit(i int) int {
	e.left++
	return e.in.Skip(i)
}

// content writes the content of a message without a tag and length.
func (e *encoder) content(m *message, i int) int {
	if m.whole == nil {
		end, _ := e.object(m, i, nil)
		return end
	}
	if f := m.fieldForValue(e.in.At(i)); f != nil {
		return e.field(f, i, true)
	}
	if m.choices == nil {
		return e.omit(i)
	}
	return e.choose(m.choices, i)
}

// choose writes an object as one of several messages. It writes the first choice, and starts again
// if a member meets the condition of another choice. This is rare in large objects; determining the
// choice first would read every object twice per level.
func (e *encoder) choose(choices []choice, i int) int {
	before, left := len(e.out), e.left
	for {
		var starts [4]int
		path := choices[0].path
		for n, f := range path {
			starts[n] = e.begin(f.number)
		}
		end, better := e.object(path[len(path)-1].message, i, choices[1:])
		if better == nil {
			for n := range path {
				e.end(starts[len(path)-1-n])
			}
			return end
		}
		e.out, e.left, choices = e.out[:before], left, better
	}
}

// object writes the members of an object. If a name occurs several times, it writes the first
// member. It stops at a member that makes one of the later choices a better match.
func (e *encoder) object(m *message, i int, others []choice) (end int, better []choice) {
	if e.in.At(i) != '{' {
		return e.omit(i), nil
	}
	var seen uint64
	i, more := e.in.Enter(i)
	for more {
		name, at := e.in.Name(i)
		for n := len(others) - 1; n >= 0; n-- {
			if others[n].key == name && e.matchesText(others[n].value, at) {
				e.in.Leave()
				return i, others[n:]
			}
		}
		switch f := m.field(name); {
		case f == nil:
			i = e.omit(at)
		case f.named:
			i = e.named(f, name, at)
		case seen&(1<<f.number) != 0:
			i = e.omit(at)
		default:
			seen |= 1 << f.number
			i = e.field(f, at, false)
		}
		i, more = e.in.Next(i, '}')
	}
	return i, nil
}

// matchesText reports whether the value at i is the given string. An empty text matches any value.
func (e *encoder) matchesText(text string, i int) bool {
	if text == "" {
		return true
	}
	end := e.in.Skip(i)
	return end != jsonplan.Invalid && end-i == len(text)+2 && e.in.Raw(i+1, end-1) == text
}

// named writes a member as a message that contains its name and value.
func (e *encoder) named(f *messageField, name string, i int) int {
	start := e.begin(f.number)
	e.out = protowire.AppendTag(e.out, nameField, protowire.BytesType)
	e.out = protowire.AppendString(e.out, name)
	value := messageField{number: valueField, kind: f.kind, message: f.message}
	i = e.field(&value, i, false)
	e.end(start)
	return i
}

// field writes a field. A zero value is not written, unless explicit is set.
func (e *encoder) field(f *messageField, i int, explicit bool) int {
	switch {
	case !f.list:
		return e.value(f, i, explicit)
	case e.in.At(i) != '[' && f.kind == kindText:
		return e.value(f, i, true) // a single string is a list with one element
	case e.in.At(i) != '[':
		return e.omit(i)
	}
	i, more := e.in.Enter(i)
	for more {
		i, more = e.in.Next(e.value(f, i, true), ']')
	}
	return i
}

func (e *encoder) value(f *messageField, i int, explicit bool) int {
	switch f.kind {
	case kindMessage:
		start := e.begin(f.number)
		i = e.content(f.message, i)
		e.end(start)
		return i
	case kindAny:
		start := e.begin(f.number)
		text := e.begin(yamlField)
		i = e.yaml(i)
		e.end(text)
		e.end(start)
		return i
	case kindText:
		return e.text(f.number, i, explicit)
	default:
		return e.scalar(f, i, explicit)
	}
}

// text writes a string. Null is written as an empty string, and an integer as its digits.
func (e *encoder) text(number protowire.Number, i int, explicit bool) int {
	if e.in.At(i) == '"' {
		before := len(e.out)
		start := e.begin(number)
		e.out, i = e.in.AppendText(e.out, i)
		if len(e.out) == start && !explicit {
			e.out = e.out[:before]
			return i
		}
		e.end(start)
		return i
	}
	end := e.in.Skip(i)
	if end == jsonplan.Invalid {
		return end
	}
	text := e.in.Raw(i, end)
	if text == "null" {
		text = ""
	} else if _, err := strconv.ParseInt(text, 10, 64); err != nil {
		return e.omit(i)
	}
	if text != "" || explicit {
		e.out = protowire.AppendTag(e.out, number, protowire.BytesType)
		e.out = protowire.AppendString(e.out, text)
	}
	return end
}

func (e *encoder) scalar(f *messageField, i int, explicit bool) int {
	end := e.in.Skip(i)
	if end == jsonplan.Invalid {
		return end
	}
	text, kind, bits, err := e.in.Raw(i, end), protowire.VarintType, uint64(0), error(nil)
	switch f.kind {
	case kindBool:
		switch text {
		case "true":
			bits = 1
		case "false":
		default:
			return e.omit(i)
		}
	case kindInt:
		var n int64
		n, err = strconv.ParseInt(text, 10, 64)
		bits = uint64(n)
	case kindNumber:
		var n float64
		n, err = strconv.ParseFloat(text, 64)
		kind, bits = protowire.Fixed64Type, math.Float64bits(n)
	}
	if err != nil {
		return e.omit(i)
	}
	if bits == 0 && !explicit {
		return end
	}
	e.out = protowire.AppendTag(e.out, f.number, kind)
	if kind == protowire.Fixed64Type {
		e.out = protowire.AppendFixed64(e.out, bits)
	} else {
		e.out = protowire.AppendVarint(e.out, bits)
	}
	return end
}
