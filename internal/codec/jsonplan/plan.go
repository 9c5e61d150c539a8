package jsonplan

import (
	"encoding"
	"encoding/base64"
	"encoding/json"
	"reflect"
	"slices"
	"strconv"
	"sync"
	"unsafe"
)

//nolint:gochecknoglobals // a cache; plans depend on their types only
var plans sync.Map // reflect.Type to encodeFunc

// planOf returns the encoding plan of a type. The encoded values must be addressable.
func planOf(t reflect.Type) encodeFunc {
	return cachedPlan(&plans, t, newPlan, func(ready func() encodeFunc) encodeFunc {
		return func(w *writer, b []byte, p unsafe.Pointer) []byte { return ready()(w, b, p) }
	})
}

// cachedPlan returns the plan of a type. On first use, it computes the plan with work. Meanwhile, the cache
// contains a placeholder that later created, so that a recursive type can refer to itself. A call of the
// placeholder waits for the plan.
func cachedPlan[P any](plans *sync.Map, t reflect.Type, work func(reflect.Type) P, later func(ready func() P) P) P {
	if known, ok := plans.Load(t); ok {
		return known.(P)
	}
	var done sync.WaitGroup
	done.Add(1)
	var plan P
	held, loaded := plans.LoadOrStore(t, later(func() P {
		done.Wait()
		return plan
	}))
	if loaded {
		return held.(P)
	}
	plan = work(t)
	done.Done()
	plans.Store(t, plan)
	return plan
}

func newPlan(t reflect.Type) encodeFunc {
	if known := knownPlan(t); known != nil {
		return known
	}
	if t.Kind() == reflect.Pointer {
		return pointerPlan(t)
	}
	if hasMarshaler(t) || hasMarshaler(reflect.PointerTo(t)) {
		return slowPlan(t)
	}
	switch t.Kind() {
	case reflect.Bool:
		return func(w *writer, b []byte, p unsafe.Pointer) []byte { return strconv.AppendBool(b, *(*bool)(p)) }
	case reflect.String:
		return func(w *writer, b []byte, p unsafe.Pointer) []byte { return appendString(b, *(*string)(p)) }
	case reflect.Slice:
		return slicePlan(t)
	case reflect.Map:
		return mapPlan(t)
	case reflect.Struct:
		return structPlan(t)
	case reflect.Interface:
		if t.NumMethod() == 0 {
			return func(w *writer, b []byte, p unsafe.Pointer) []byte { return w.any(b, *(*any)(p)) }
		}
	}
	if plan := numberPlan(t); plan != nil {
		return plan
	}
	return slowPlan(t)
}

func hasMarshaler(t reflect.Type) bool {
	return t.Implements(reflect.TypeFor[json.Marshaler]()) || t.Implements(reflect.TypeFor[encoding.TextMarshaler]())
}

func slowPlan(t reflect.Type) encodeFunc {
	return func(w *writer, b []byte, p unsafe.Pointer) []byte { return w.slow(b, reflect.NewAt(t, p).Interface()) }
}

func numberPlan(t reflect.Type) encodeFunc {
	switch t.Kind() {
	case reflect.Int:
		return signedPlan[int]
	case reflect.Int8:
		return signedPlan[int8]
	case reflect.Int16:
		return signedPlan[int16]
	case reflect.Int32:
		return signedPlan[int32]
	case reflect.Int64:
		return signedPlan[int64]
	case reflect.Uint:
		return unsignedPlan[uint]
	case reflect.Uint8:
		return unsignedPlan[uint8]
	case reflect.Uint16:
		return unsignedPlan[uint16]
	case reflect.Uint32:
		return unsignedPlan[uint32]
	case reflect.Uint64:
		return unsignedPlan[uint64]
	case reflect.Float32:
		return func(w *writer, b []byte, p unsafe.Pointer) []byte { return w.float(b, float64(*(*float32)(p)), 32) }
	case reflect.Float64:
		return func(w *writer, b []byte, p unsafe.Pointer) []byte { return w.float(b, *(*float64)(p), 64) }
	}
	return nil
}

func signedPlan[T int | int8 | int16 | int32 | int64](_ *writer, b []byte, p unsafe.Pointer) []byte {
	return strconv.AppendInt(b, int64(*(*T)(p)), 10)
}

func unsignedPlan[T uint | uint8 | uint16 | uint32 | uint64](_ *writer, b []byte, p unsafe.Pointer) []byte {
	return strconv.AppendUint(b, uint64(*(*T)(p)), 10)
}

func (w *writer) float(b []byte, f float64, bitSize int) []byte {
	b, ok := appendFloat(b, f, bitSize)
	if !ok {
		return w.fail(b)
	}
	return b
}

func pointerPlan(t reflect.Type) encodeFunc {
	elem := planOf(t.Elem())
	return func(w *writer, b []byte, p unsafe.Pointer) []byte {
		target := *(*unsafe.Pointer)(p)
		if target == nil {
			return append(b, "null"...)
		}
		return elem(w, b, target)
	}
}

func slicePlan(t reflect.Type) encodeFunc {
	e := t.Elem()
	if e.Kind() == reflect.Uint8 && !hasMarshaler(e) && !hasMarshaler(reflect.PointerTo(e)) {
		return bytesPlan
	}
	elem, size := planOf(e), e.Size()
	isMessage := reflect.PointerTo(t).Implements(reflect.TypeFor[interface{ Marshal() ([]byte, error) }]())
	return func(w *writer, b []byte, p unsafe.Pointer) []byte {
		s := *(*[]byte)(p) // valid for any element type, because the slice header is the same
		if isMessage && w.readBack && len(s) == 0 {
			return w.fail(b) // protobuf may preserve the empty list as an empty message
		}
		if s == nil || w.readBack && len(s) == 0 {
			return append(b, "null"...)
		}
		b = append(b, '[')
		data := unsafe.Pointer(unsafe.SliceData(s))
		for i := range len(s) {
			if i > 0 {
				b = append(b, ',')
			}
			b = elem(w, b, unsafe.Add(data, uintptr(i)*size))
		}
		return append(b, ']')
	}
}

func bytesPlan(_ *writer, b []byte, p unsafe.Pointer) []byte { return appendBase64(b, *(*[]byte)(p)) }

func appendBase64(b, data []byte) []byte {
	if data == nil {
		return append(b, "null"...)
	}
	b = append(b, '"')
	b = base64.StdEncoding.AppendEncode(b, data)
	return append(b, '"')
}

// mapPlan returns the plan of a map type. Map values are not addressable, so copies of them are
// encoded.
func mapPlan(t reflect.Type) encodeFunc {
	key, value := t.Key(), t.Elem()
	if key.Kind() != reflect.String || hasMarshaler(key) || !hasMarshaler(value) && hasMarshaler(reflect.PointerTo(value)) {
		return slowPlan(t)
	}
	text := reflect.TypeFor[string]()
	switch {
	case key == text && value == text:
		return textMapPlan
	case key == text && value == reflect.TypeFor[[]byte]():
		return bytesMapPlan
	}
	elem := planOf(value)
	return func(w *writer, b []byte, p unsafe.Pointer) []byte {
		return w.reflectMap(b, reflect.NewAt(t, p).Elem(), elem)
	}
}

func textMapPlan(w *writer, b []byte, p unsafe.Pointer) []byte {
	m := *(*map[string]string)(p)
	if w.encodesAsNull(m == nil, len(m)) {
		return append(b, "null"...)
	}
	base := len(w.keys)
	for key := range m {
		w.keys = append(w.keys, key)
	}
	for i, key := range w.sorted(base) {
		b = appendString(appendKey(b, i, key), m[key])
	}
	return w.endMap(b, base)
}

func bytesMapPlan(w *writer, b []byte, p unsafe.Pointer) []byte {
	m := *(*map[string][]byte)(p)
	if w.encodesAsNull(m == nil, len(m)) {
		return append(b, "null"...)
	}
	base := len(w.keys)
	for key := range m {
		w.keys = append(w.keys, key)
	}
	for i, key := range w.sorted(base) {
		b = appendKey(b, i, key)
		if value := m[key]; value == nil && w.readBack {
			b = append(b, `""`...)
		} else {
			b = appendBase64(b, value)
		}
	}
	return w.endMap(b, base)
}

// encodesAsNull reports whether a map with n entries is encoded as null.
func (w *writer) encodesAsNull(isNil bool, n int) bool { return isNil || w.readBack && n == 0 }

// sorted returns the keys that were pushed after base, in ascending order. They remain valid until endMap,
// even if more keys are pushed.
func (w *writer) sorted(base int) []string {
	keys := w.keys[base:]
	slices.Sort(keys)
	return keys
}

// appendKey appends the separator and the name of the i-th member.
func appendKey(b []byte, i int, key string) []byte {
	if i == 0 {
		b = append(b, '{')
	} else {
		b = append(b, ',')
	}
	return append(appendString(b, key), ':')
}

func (w *writer) endMap(b []byte, base int) []byte {
	if len(w.keys) == base {
		b = append(b, '{')
	}
	clear(w.keys[base:])
	w.keys = w.keys[:base]
	return append(b, '}')
}

func (w *writer) reflectMap(b []byte, m reflect.Value, elem encodeFunc) []byte {
	if w.encodesAsNull(m.IsNil(), m.Len()) {
		return append(b, "null"...)
	}
	type entry struct {
		key   string
		value unsafe.Pointer
	}
	values := reflect.MakeSlice(reflect.SliceOf(m.Type().Elem()), m.Len(), m.Len())
	entries := make([]entry, 0, m.Len())
	for it := m.MapRange(); it.Next(); {
		value := values.Index(len(entries))
		value.SetIterValue(it)
		entries = append(entries, entry{it.Key().String(), value.Addr().UnsafePointer()})
	}
	slices.SortFunc(entries, func(a, b entry) int {
		if a.key < b.key {
			return -1
		}
		return 1
	})
	for i, e := range entries {
		b = elem(w, appendKey(b, i, e.key), e.value)
	}
	if len(entries) == 0 {
		b = append(b, '{')
	}
	return append(b, '}')
}
