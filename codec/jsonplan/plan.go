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

//nolint:gochecknoglobals // what is kept follows from types alone and never changes
var plans sync.Map // reflect.Type to encodeFunc

// planOf returns how values of a type are written that stand in memory which
// can be pointed to.
func planOf(t reflect.Type) encodeFunc {
	if known, ok := plans.Load(t); ok {
		return known.(encodeFunc)
	}
	// A type that holds itself finds this, which is good once the plan is.
	var ready sync.WaitGroup
	ready.Add(1)
	var plan encodeFunc
	held, loaded := plans.LoadOrStore(t, encodeFunc(func(w *writer, p unsafe.Pointer) {
		ready.Wait()
		plan(w, p)
	}))
	if loaded {
		return held.(encodeFunc)
	}
	plan = newPlan(t)
	ready.Done()
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
	if writesItself(t) || writesItself(reflect.PointerTo(t)) {
		return slowPlan(t)
	}
	switch t.Kind() {
	case reflect.Bool:
		return func(w *writer, p unsafe.Pointer) { w.buf = strconv.AppendBool(w.buf, *(*bool)(p)) }
	case reflect.String:
		return func(w *writer, p unsafe.Pointer) { w.buf = appendString(w.buf, *(*string)(p)) }
	case reflect.Slice:
		return slicePlan(t)
	case reflect.Map:
		return mapPlan(t)
	case reflect.Struct:
		return structPlan(t)
	case reflect.Interface:
		if t.NumMethod() == 0 {
			return func(w *writer, p unsafe.Pointer) { w.any(*(*any)(p)) }
		}
	}
	if plan := numberPlan(t); plan != nil {
		return plan
	}
	return slowPlan(t)
}

func writesItself(t reflect.Type) bool {
	return t.Implements(reflect.TypeFor[json.Marshaler]()) || t.Implements(reflect.TypeFor[encoding.TextMarshaler]())
}

func slowPlan(t reflect.Type) encodeFunc {
	return func(w *writer, p unsafe.Pointer) { w.slow(reflect.NewAt(t, p).Interface()) }
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
		return func(w *writer, p unsafe.Pointer) { w.float(float64(*(*float32)(p)), 32) }
	case reflect.Float64:
		return func(w *writer, p unsafe.Pointer) { w.float(*(*float64)(p), 64) }
	}
	return nil
}

func signedPlan[T int | int8 | int16 | int32 | int64](w *writer, p unsafe.Pointer) {
	w.buf = strconv.AppendInt(w.buf, int64(*(*T)(p)), 10)
}

func unsignedPlan[T uint | uint8 | uint16 | uint32 | uint64](w *writer, p unsafe.Pointer) {
	w.buf = strconv.AppendUint(w.buf, uint64(*(*T)(p)), 10)
}

func (w *writer) float(f float64, bitSize int) {
	var ok bool
	if w.buf, ok = appendFloat(w.buf, f, bitSize); !ok {
		w.failed = true
	}
}

func pointerPlan(t reflect.Type) encodeFunc {
	elem := planOf(t.Elem())
	return func(w *writer, p unsafe.Pointer) {
		target := *(*unsafe.Pointer)(p)
		if target == nil {
			w.string("null")
			return
		}
		elem(w, target)
	}
}

func slicePlan(t reflect.Type) encodeFunc {
	e := t.Elem()
	if e.Kind() == reflect.Uint8 && !writesItself(e) && !writesItself(reflect.PointerTo(e)) {
		return bytesPlan
	}
	elem, size := planOf(e), e.Size()
	isMessage := reflect.PointerTo(t).Implements(reflect.TypeFor[interface{ Marshal() ([]byte, error) }]())
	return func(w *writer, p unsafe.Pointer) {
		s := *(*[]byte)(p) // whatever it holds: the header is the same
		if isMessage && w.readBack && len(s) == 0 {
			w.failed = true // it may be kept, as a message with nothing in it
			return
		}
		if s == nil || w.readBack && len(s) == 0 {
			w.string("null")
			return
		}
		w.buf = append(w.buf, '[')
		data := unsafe.Pointer(unsafe.SliceData(s))
		for i := range len(s) {
			if i > 0 {
				w.buf = append(w.buf, ',')
			}
			elem(w, unsafe.Add(data, uintptr(i)*size))
		}
		w.buf = append(w.buf, ']')
	}
}

func bytesPlan(w *writer, p unsafe.Pointer) { w.base64(*(*[]byte)(p)) }

func (w *writer) base64(b []byte) {
	if b == nil {
		w.string("null")
		return
	}
	w.buf = append(w.buf, '"')
	w.buf = base64.StdEncoding.AppendEncode(w.buf, b)
	w.buf = append(w.buf, '"')
}

// mapPlan: maps whose values are held by nothing that can be pointed to are
// written from copies of their values.
func mapPlan(t reflect.Type) encodeFunc {
	key, value := t.Key(), t.Elem()
	if key.Kind() != reflect.String || writesItself(key) || !writesItself(value) && writesItself(reflect.PointerTo(value)) {
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
	return func(w *writer, p unsafe.Pointer) { w.reflectMap(reflect.NewAt(t, p).Elem(), elem) }
}

func textMapPlan(w *writer, p unsafe.Pointer) {
	m := *(*map[string]string)(p)
	if w.noMap(m == nil, len(m)) {
		return
	}
	base := len(w.keys)
	for key := range m {
		w.keys = append(w.keys, key)
	}
	for i, key := range w.sorted(base) {
		w.key(i, key)
		w.buf = appendString(w.buf, m[key])
	}
	w.endMap(base)
}

func bytesMapPlan(w *writer, p unsafe.Pointer) {
	m := *(*map[string][]byte)(p)
	if w.noMap(m == nil, len(m)) {
		return
	}
	base := len(w.keys)
	for key := range m {
		w.keys = append(w.keys, key)
	}
	for i, key := range w.sorted(base) {
		w.key(i, key)
		if value := m[key]; value == nil && w.readBack {
			w.string(`""`)
		} else {
			w.base64(value)
		}
	}
	w.endMap(base)
}

// noMap writes a map that is none.
func (w *writer) noMap(isNil bool, n int) bool {
	if isNil || w.readBack && n == 0 {
		w.string("null")
		return true
	}
	return false
}

// sorted returns the keys that were pushed since base, in order. They are good
// until endMap, although more may be pushed meanwhile.
func (w *writer) sorted(base int) []string {
	keys := w.keys[base:]
	slices.Sort(keys)
	return keys
}

// key writes what precedes the value of the i-th key.
func (w *writer) key(i int, key string) {
	if i == 0 {
		w.buf = append(w.buf, '{')
	} else {
		w.buf = append(w.buf, ',')
	}
	w.buf = append(appendString(w.buf, key), ':')
}

func (w *writer) endMap(base int) {
	if len(w.keys) == base {
		w.buf = append(w.buf, '{')
	}
	clear(w.keys[base:])
	w.keys = w.keys[:base]
	w.buf = append(w.buf, '}')
}

func (w *writer) reflectMap(m reflect.Value, elem encodeFunc) {
	if w.noMap(m.IsNil(), m.Len()) {
		return
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
		w.key(i, e.key)
		elem(w, e.value)
	}
	if len(entries) == 0 {
		w.buf = append(w.buf, '{')
	}
	w.buf = append(w.buf, '}')
}
