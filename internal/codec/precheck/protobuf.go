package precheck

import (
	"encoding/json"
	"errors"
	"iter"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	"mainstay.dev/mainstay/internal/codec/quantity"
)

// Errors of CheckProtobuf for messages that no encoder produces.
var (
	errEntry = errors.New("proto: an entry of a map extends beyond its length")
	errDepth = errors.New("proto: exceeded max depth")
	errJSON  = errors.New("proto: invalid JSON text")
	errTime  = errors.New("proto: a time is outside of the years 0 to 9999")
	errType  = errors.New("proto: an IntOrString is neither a number nor a string")
)

// maxYear is the last year that RFC 3339 can represent.
const maxYear = 9999

// Wire types of protobuf.
const (
	wireVarint = iota
	wireFixed64
	wireBytes
	wireStartGroup
	wireEndGroup
	wireFixed32
)

// rawField is the field number of the encoded object in runtime.Unknown, the envelope of protobuf objects.
const rawField = 2

// CheckProtobuf checks a protobuf encoding of a value of the shape's type. envelope is the data after the
// magic prefix. CheckProtobuf returns quantity.ErrOutOfRange for a quantity beyond the limits, an API error
// for an object that exceeds MaxMemory, and the errors of charge. It reads messages like the generated
// code, so it finds all values that the generated code would parse. It also returns an error for messages
// that are nested too deeply, because the generated code would exhaust its stack, and for map entries with
// a key or value that extends beyond the entry, because the generated code would copy the data after the
// entry for each entry. Finally, it returns an error for times, JSON texts and IntOrStrings that the
// generated code accepts, but that have no valid JSON encoding; clients could not read such an object, or a
// list that contains it, as JSON. It returns nil for other invalid data, which the decoder reports.
func (s *Shape) CheckProtobuf(envelope []byte, charge Charge) error {
	if s == nil {
		return nil
	}
	m := &Meter{Charge: charge}
	return m.checkMessage(&Shape{numbers: map[int32]part{rawField: {shape: s}}}, envelope, maxDepth)
}

func (m *Meter) checkMessage(s *Shape, data []byte, depth int) error {
	if depth == 0 {
		return errDepth
	}
	if s != nil && s.checkValue != nil {
		return s.checkValue(data)
	}
	for len(data) > 0 && s != nil && (s.isQuantity || len(s.numbers) > 0) {
		f, rest, ok := nextField(data)
		if !ok {
			return nil
		}
		data = rest
		if f.wire != wireBytes {
			continue
		}
		if err := m.checkField(s, f, depth-1); err != nil {
			return err
		}
	}
	return nil
}

func (m *Meter) checkField(s *Shape, f field, depth int) error {
	if s.isQuantity {
		if f.number == 1 {
			return quantity.Check(string(f.bytes))
		}
		return nil
	}
	p := s.numbers[f.number]
	sub := p.shape
	if sub == nil {
		return m.Add(p.size)
	}
	if sub.isList || sub.isMap {
		p = sub.elem // the field is one element of a list, or one entry of a map
	}
	if err := m.Add(p.size); err != nil {
		return err
	}
	if sub.isMap {
		return m.checkEntry(p.shape, f.bytes, depth)
	}
	return m.checkMessage(p.shape, f.bytes, depth)
}

// checkTime checks a timestamp. Its fields 1 and 2 are the seconds and nanoseconds since 1970.
func checkTime(message []byte) error {
	var seconds, nanoseconds int64
	for f := range fieldsOf(message) {
		switch {
		case f.wire != wireVarint:
		case f.number == 1:
			seconds = int64(f.value)
		case f.number == 2:
			nanoseconds = int64(int32(f.value))
		}
	}
	const year = 366 * 24 * 60 * 60
	if seconds < -maxYear*year || seconds > maxYear*year {
		return errTime // the Year method overflows for such times
	}
	if at := time.Unix(seconds, nanoseconds).UTC().Year(); at < 0 || at > maxYear {
		return errTime
	}
	return nil
}

// checkJSONText checks a message whose field 1 is a JSON text.
func checkJSONText(message []byte) error {
	for f := range fieldsOf(message) {
		if f.number == 1 && f.wire == wireBytes && !json.Valid(f.bytes) {
			return errJSON
		}
	}
	return nil
}

// checkIntOrString checks an IntOrString. Its field 1 is the type.
func checkIntOrString(message []byte) error {
	for f := range fieldsOf(message) {
		if f.number == 1 && f.wire == wireVarint && f.value != uint64(intstr.Int) && f.value != uint64(intstr.String) {
			return errType
		}
	}
	return nil
}

// checkEntry checks a map entry. The key has field number 1, and the value has field number 2. Like the
// generated code, checkEntry ignores their wire types: no map of the API has numeric keys or values.
func (m *Meter) checkEntry(s *Shape, entry []byte, depth int) error {
	for len(entry) > 0 {
		tag, after, ok := varint(entry)
		if !ok {
			return errEntry
		}
		number := int32(tag >> 3)
		if number != 1 && number != 2 {
			if _, entry, ok = nextField(entry); !ok {
				return errEntry
			}
			continue
		}
		length, after, ok := varint(after)
		if !ok || length > uint64(len(after)) {
			return errEntry
		}
		if number == 2 {
			if err := m.checkMessage(s, after[:length], depth); err != nil {
				return err
			}
		}
		entry = after[length:]
	}
	return nil
}

// field is one field of a message.
type field struct {
	number int32
	wire   int
	value  uint64 // for wireVarint
	bytes  []byte // content, for wireBytes
}

// fieldsOf iterates over the fields of a message up to the first invalid field.
func fieldsOf(message []byte) iter.Seq[field] {
	return func(yield func(field) bool) {
		for len(message) > 0 {
			f, rest, ok := nextField(message)
			if !ok || !yield(f) {
				return
			}
			message = rest
		}
	}
}

func nextField(data []byte) (f field, rest []byte, ok bool) {
	tag, data, ok := varint(data)
	if !ok {
		return f, nil, false
	}
	f.number, f.wire = int32(tag>>3), int(tag&7) // truncated as in the generated code
	switch f.wire {
	case wireVarint:
		f.value, data, ok = varint(data)
	case wireFixed64:
		data, ok = skip(data, 8)
	case wireFixed32:
		data, ok = skip(data, 4)
	case wireBytes:
		var length uint64
		if length, data, ok = varint(data); !ok || length > uint64(len(data)) {
			return f, nil, false
		}
		f.bytes, data = data[:length], data[length:]
	case wireStartGroup:
		data, ok = skipGroup(data)
	default:
		return f, nil, false
	}
	return f, data, ok
}

// skipGroup skips the fields of a group, recursively.
func skipGroup(data []byte) (rest []byte, ok bool) {
	for depth := 1; depth > 0; {
		tag, after, ok := varint(data)
		if !ok {
			return nil, false
		}
		switch int(tag & 7) {
		case wireStartGroup:
			data, depth = after, depth+1
		case wireEndGroup:
			data, depth = after, depth-1
		default:
			if _, data, ok = nextField(data); !ok {
				return nil, false
			}
		}
	}
	return data, true
}

func skip(data []byte, n int) ([]byte, bool) {
	if len(data) < n {
		return nil, false
	}
	return data[n:], true
}

// varint reads a varint. It drops the bits beyond the 64th, like the generated code.
func varint(data []byte) (n uint64, rest []byte, ok bool) {
	for i, shift := 0, uint(0); i < len(data) && shift < 64; i, shift = i+1, shift+7 {
		n |= uint64(data[i]&0x7f) << shift
		if data[i] < 0x80 {
			return n, data[i+1:], true
		}
	}
	return 0, nil, false
}
