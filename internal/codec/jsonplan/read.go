package jsonplan

import (
	"encoding"
	"encoding/base64"
	"encoding/json"
	"iter"
	"reflect"
	"strconv"
	"sync"
	"unsafe"

	"mainstay.dev/mainstay/internal/codec/precheck"
)

// Decode decodes a JSON object into v, a pointer to an empty struct. It returns true if sigs.k8s.io/json
// would decode the same value in strict mode without an error. If it returns false, the content of v is
// undefined, and the caller must decode with sigs.k8s.io/json, which also provides the error. Decode also
// returns false for an object that may need more memory than precheck.MaxMemory, or that charge rejects. Strings
// in v share memory with a copy of data.
func Decode(data []byte, v any, charge precheck.Charge) bool {
	return decode(reader{data: string(data), meter: precheck.Meter{Charge: charge}}, v)
}

// DecodeWithout is like Decode, but skips the struct members with the given name at all levels;
// their values must be valid JSON. It copies each string, for callers that retain a small part of a
// long document.
func DecodeWithout(data []byte, v any, name string) bool {
	return decode(reader{data: unsafe.String(unsafe.SliceData(data), len(data)), unlimited: true, without: name, copyStrings: true}, v)
}

func decode(r reader, v any) bool {
	rv := reflect.ValueOf(v)
	if !decoderEnabled || rv.Kind() != reflect.Pointer || rv.Type().Elem().Kind() != reflect.Struct || rv.IsNil() || hasUnmarshaler(rv.Type()) {
		return false
	}
	i := r.space(0)
	if r.at(i) != '{' {
		return false
	}
	i = readPlanOf(rv.Type().Elem())(&r, i, rv.UnsafePointer())
	return r.atEnd(i)
}

// DecodeDocument decodes a JSON object into a map, with integers as int64. It returns false for
// input that sigs.k8s.io/json must decode or reject.
func DecodeDocument(data []byte) (map[string]any, bool) {
	r := reader{data: string(data)}
	i := r.space(0)
	if !decoderEnabled || r.at(i) != '{' {
		return nil, false
	}
	document, i := r.documentMap(i)
	return document, r.atEnd(i)
}

// Member returns the undecoded value of a member of a JSON object. It shares memory with data. It
// returns false if the member is absent or data is not an object.
func Member(data []byte, name string) ([]byte, bool) {
	for found, value := range Members(data) {
		if found == name {
			return value, true
		}
	}
	return nil, false
}

// Members iterates over the names and undecoded values of the members of a JSON object. The values
// share memory with data. The iteration ends early if data is not a valid object.
func Members(data []byte) iter.Seq2[string, []byte] {
	return func(yield func(string, []byte) bool) {
		r := reader{data: unsafe.String(unsafe.SliceData(data), len(data))}
		i, more := r.open(r.space(0), '{', '}')
		for more {
			name, after := r.text(i)
			at := r.colon(after)
			if at == invalid {
				return
			}
			end := r.skip(at)
			if end == invalid || !yield(name, data[at:end:end]) {
				return
			}
			i, more = r.next(end, '}')
		}
	}
}

// seekStep returns the position of a member (string) or element (int) of the value at i.
func (r *reader) seekStep(i int, to any) int {
	switch to := to.(type) {
	case string:
		i, more := r.open(i, '{', '}')
		for more {
			name, after := r.text(i)
			at := r.colon(after)
			if at == invalid || name == to {
				return at
			}
			i, more = r.next(r.skip(at), '}')
		}
	case int:
		i, more := r.open(i, '[', ']')
		for ; more; to-- {
			if to == 0 {
				return i
			}
			i, more = r.next(r.skip(i), ']')
		}
	}
	return invalid
}

func (r *reader) atEnd(i int) bool { return i >= 0 && r.space(i) == len(r.data) }

// decodeFunc decodes the value at position i into the zeroed memory at p. It returns the position
// after the value, or invalid.
type decodeFunc func(r *reader, i int, p unsafe.Pointer) int

// invalid is the position that reports a failure. The caller must then use another decoder.
const invalid = -1

//nolint:gochecknoglobals // a cache; plans depend on their types only
var readPlans sync.Map // reflect.Type to decodeFunc

// readPlanOf returns the decoding plan of a type.
func readPlanOf(t reflect.Type) decodeFunc {
	return cachedPlan(&readPlans, t, newReadPlan, func(ready func() decodeFunc) decodeFunc {
		return func(r *reader, i int, p unsafe.Pointer) int { return ready()(r, i, p) }
	})
}

func newReadPlan(t reflect.Type) decodeFunc {
	if known := knownReadPlan(t); known != nil {
		return known
	}
	if t.Kind() == reflect.Pointer {
		return pointerReadPlan(t)
	}
	if reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]()) {
		return unmarshalerPlan(t)
	}
	if hasUnmarshaler(reflect.PointerTo(t)) {
		return readUnsupported
	}
	switch t.Kind() {
	case reflect.Bool:
		return readBool
	case reflect.String:
		if t == reflect.TypeFor[json.Number]() {
			return readUnsupported
		}
		return readText
	case reflect.Int32:
		return readInt32
	case reflect.Int64, reflect.Int:
		return readInt64
	case reflect.Float64:
		return readFloat64
	case reflect.Slice:
		return sliceReadPlan(t)
	case reflect.Map:
		return mapReadPlan(t)
	case reflect.Struct:
		return structReadPlan(t)
	case reflect.Interface:
		if t.NumMethod() == 0 {
			return readAny
		}
	}
	return readUnsupported
}

func hasUnmarshaler(t reflect.Type) bool {
	return t.Implements(reflect.TypeFor[json.Unmarshaler]()) || t.Implements(reflect.TypeFor[encoding.TextUnmarshaler]())
}

func readUnsupported(*reader, int, unsafe.Pointer) int { return invalid }

func unmarshalerPlan(t reflect.Type) decodeFunc {
	return func(r *reader, i int, p unsafe.Pointer) int {
		end := r.skip(i)
		if end == invalid {
			return invalid
		}
		if err := reflect.NewAt(t, p).Interface().(json.Unmarshaler).UnmarshalJSON([]byte(r.data[i:end])); err != nil {
			return invalid
		}
		return end
	}
}

func readText(r *reader, i int, p unsafe.Pointer) int {
	if r.at(i) == 'n' {
		return r.literal(i, "null")
	}
	s, end := r.text(i)
	if end != invalid {
		*(*string)(p) = r.retain(s)
	}
	return end
}

func readBool(r *reader, i int, p unsafe.Pointer) int {
	switch r.at(i) {
	case 't':
		*(*bool)(p) = true
		return r.literal(i, "true")
	case 'f':
		return r.literal(i, "false")
	}
	return r.literal(i, "null")
}

func readInt64(r *reader, i int, p unsafe.Pointer) int {
	if r.at(i) == 'n' {
		return r.literal(i, "null")
	}
	n, end := r.integer(i)
	if end != invalid {
		*(*int64)(p) = n
	}
	return end
}

func readInt32(r *reader, i int, p unsafe.Pointer) int {
	if r.at(i) == 'n' {
		return r.literal(i, "null")
	}
	n, end := r.integer(i)
	if end == invalid || int64(int32(n)) != n {
		return invalid
	}
	*(*int32)(p) = int32(n)
	return end
}

func readFloat64(r *reader, i int, p unsafe.Pointer) int {
	if r.at(i) == 'n' {
		return r.literal(i, "null")
	}
	end := r.number(i)
	if end == invalid {
		return invalid
	}
	f, err := strconv.ParseFloat(r.data[i:end], 64)
	if err != nil {
		return invalid
	}
	*(*float64)(p) = f
	return end
}

func readAny(r *reader, i int, p unsafe.Pointer) int {
	if r.copyStrings {
		return invalid
	}
	v, end := r.document(i)
	if end != invalid {
		*(*any)(p) = v
	}
	return end
}

func pointerReadPlan(t reflect.Type) decodeFunc {
	e := t.Elem()
	if e.Kind() == reflect.Pointer {
		return readUnsupported
	}
	elem := readPlanOf(e)
	return func(r *reader, i int, p unsafe.Pointer) int {
		if r.at(i) == 'n' {
			return r.literal(i, "null")
		}
		if !r.allocate(e.Size()) {
			return invalid
		}
		target := reflect.New(e).UnsafePointer()
		*(*unsafe.Pointer)(p) = target
		return elem(r, i, target)
	}
}

func structReadPlan(t reflect.Type) decodeFunc {
	members, ok := membersOf(t)
	if !ok || len(members) > 256 {
		return readUnsupported
	}
	index := make(map[string]int, len(members))
	for i := range members {
		index[members[i].name] = i
		members[i].decode = readPlanOf(members[i].t)
	}
	return func(r *reader, i int, p unsafe.Pointer) int {
		if r.at(i) == 'n' {
			return r.literal(i, "null")
		}
		var seen [4]uint64
		i, more := r.open(i, '{', '}')
		for next := 0; more; next++ {
			// Clients in Go send the members in the order of the struct.
			end := invalid
			if next < len(members) {
				end = r.literal(i, members[next].key[1:])
			}
			if end == invalid {
				name, after := r.text(i)
				at, ok := index[name]
				if !ok || after == invalid {
					return invalid
				}
				next, end = at, r.colon(after)
			}
			if seen[next>>6]&(1<<(next&63)) != 0 || end == invalid {
				return invalid
			}
			seen[next>>6] |= 1 << (next & 63)
			m := &members[next]
			if m.name == r.without {
				i, more = r.next(r.skip(r.space(end)), '}')
				continue
			}
			i, more = r.next(m.decode(r, r.space(end), unsafe.Add(p, m.offset)), '}')
		}
		return i
	}
}

// initialItems is the initial capacity of a list, unless its items together exceed initialBytes.
const (
	initialItems = 4
	initialBytes = 512
)

func sliceReadPlan(t reflect.Type) decodeFunc {
	e := t.Elem()
	switch {
	case e.Kind() == reflect.Uint8:
		return readBytes
	case e == reflect.TypeFor[string]():
		return readTexts
	}
	elem, size := readPlanOf(e), e.Size()
	first := max(1, min(initialItems, initialBytes/int(max(1, size))))
	return func(r *reader, i int, p unsafe.Pointer) int {
		if r.at(i) == 'n' {
			return r.literal(i, "null")
		}
		s := reflect.NewAt(t, p).Elem()
		i, more := r.open(i, '[', ']')
		if !more && i != invalid {
			s.Set(reflect.MakeSlice(t, 0, 0))
		}
		for n := 0; more; n++ {
			if n == s.Cap() {
				added := max(first, n)
				if !r.allocate(uintptr(added) * size) {
					return invalid
				}
				s.Grow(added)
			}
			s.SetLen(n + 1)
			i, more = r.next(elem(r, i, unsafe.Add(s.UnsafePointer(), uintptr(n)*size)), ']')
		}
		return i
	}
}

func readTexts(r *reader, i int, p unsafe.Pointer) int {
	if r.at(i) == 'n' {
		return r.literal(i, "null")
	}
	list := []string{}
	i, more := r.open(i, '[', ']')
	for more {
		var s string
		i, more = r.next(readText(r, i, unsafe.Pointer(&s)), ']')
		list = append(list, s)
	}
	*(*[]string)(p) = list
	return i
}

func readBytes(r *reader, i int, p unsafe.Pointer) int {
	if r.at(i) == 'n' {
		return r.literal(i, "null")
	}
	s, end := r.text(i)
	if end == invalid {
		return invalid
	}
	b, err := base64.StdEncoding.DecodeString(s)
	if err != nil {
		return invalid
	}
	*(*[]byte)(p) = b
	return end
}

func mapReadPlan(t reflect.Type) decodeFunc {
	key, value := t.Key(), t.Elem()
	if key.Kind() != reflect.String || hasUnmarshaler(reflect.PointerTo(key)) {
		return readUnsupported
	}
	if key == reflect.TypeFor[string]() && value == key {
		return readTextMap
	}
	elem, size := readPlanOf(value), key.Size()+value.Size()
	return func(r *reader, i int, p unsafe.Pointer) int {
		if r.at(i) == 'n' {
			return r.literal(i, "null")
		}
		i, more := r.open(i, '{', '}')
		if i == invalid {
			return invalid
		}
		m := reflect.MakeMap(t)
		reflect.NewAt(t, p).Elem().Set(m)
		for more {
			name, after := r.text(i)
			at := r.colon(after)
			if at == invalid || !r.allocate(size) {
				return invalid
			}
			k, v := reflect.New(key).Elem(), reflect.New(value)
			k.SetString(r.retain(name))
			i, more = r.next(elem(r, r.space(at), v.UnsafePointer()), '}')
			before := m.Len()
			if m.SetMapIndex(k, v.Elem()); m.Len() == before {
				return invalid
			}
		}
		return i
	}
}

func readTextMap(r *reader, i int, p unsafe.Pointer) int {
	if r.at(i) == 'n' {
		return r.literal(i, "null")
	}
	i, more := r.open(i, '{', '}')
	if i == invalid {
		return invalid
	}
	m := map[string]string{}
	*(*map[string]string)(p) = m
	for more {
		name, after := r.text(i)
		at := r.colon(after)
		if at == invalid {
			return invalid
		}
		var value string
		i, more = r.next(readText(r, r.space(at), unsafe.Pointer(&value)), '}')
		before := len(m)
		if m[r.retain(name)] = value; len(m) == before {
			return invalid
		}
	}
	return i
}
