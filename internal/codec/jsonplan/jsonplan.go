// Package jsonplan writes and reads API objects as JSON, by plans that are made
// once of each Go type. What it writes is what encoding/json writes, to the
// byte; what it reads is what sigs.k8s.io/json reads strictly, or it does not
// read it. It knows the types of apimachinery that write themselves, and leaves
// every other type, and the wording of all errors, to those two.
//
// A plan is derived from a type alone and never changes, so that plans are kept
// for the whole process.
package jsonplan

import (
	"encoding/json"
	"reflect"
	"sync"
	"unsafe"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Append appends v, a pointer to a struct or an *unstructured.Unstructured, as
// JSON. It must not be changed meanwhile.
func Append(dst []byte, v any) ([]byte, error) {
	out, ok := appendWith(dst, v, false)
	if !ok {
		return appendSlowly(dst, v)
	}
	return out, nil
}

// AppendReadBack appends v, a pointer to a struct, as Append would append what protobuf keeps of it: an
// empty list is as none. It is false where that takes a round trip to know.
func AppendReadBack(dst []byte, v any) ([]byte, bool) {
	if reflect.ValueOf(v).Kind() != reflect.Pointer {
		return dst, false
	}
	return appendWith(dst, v, true)
}

func appendWith(dst []byte, v any, readBack bool) ([]byte, bool) {
	w := writerPool.Get().(*writer)
	w.readBack, w.failed = readBack, false
	if readBack {
		w.top = reflect.ValueOf(v).UnsafePointer()
	}
	out := w.any(dst, v)
	failed := w.failed
	w.top = nil
	writerPool.Put(w)
	if failed {
		return dst, false
	}
	return out, true
}

func appendSlowly(dst []byte, v any) ([]byte, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return dst, err
	}
	return append(dst, b...), nil
}

// Marshal is Append into memory of just the size.
func Marshal(v any) ([]byte, error) {
	scratch := scratchPool.Get().(*[]byte)
	b, err := Append((*scratch)[:0], v)
	return keep(scratch, b), err
}

// MarshalReadBack is AppendReadBack into memory of just the size.
func MarshalReadBack(v any) ([]byte, bool) {
	scratch := scratchPool.Get().(*[]byte)
	b, ok := AppendReadBack((*scratch)[:0], v)
	return keep(scratch, b), ok
}

// maxScratch is the size of the largest buffer that is used again.
const maxScratch = 1 << 20

func keep(scratch *[]byte, b []byte) []byte {
	out := make([]byte, len(b))
	copy(out, b)
	if cap(b) <= maxScratch {
		*scratch = b[:0]
	}
	scratchPool.Put(scratch)
	return out
}

// writer is what is known of an object that is being written. The bytes written
// so far are handed from hand to hand instead: they stay in registers so.
type writer struct {
	// keys is a stack of the keys of the maps that are being written.
	keys []string
	// scratch and copy are for quantities.
	scratch [32]byte
	copy    resource.Quantity
	// readBack: write what protobuf would keep of the object at top.
	readBack bool
	top      unsafe.Pointer
	// failed: encoding/json must decode instead.
	failed bool
}

//nolint:gochecknoglobals // buffers and plans; no server could see anything of another
var (
	writerPool  = sync.Pool{New: func() any { return new(writer) }}
	scratchPool = sync.Pool{New: func() any { b := make([]byte, 0, 16<<10); return &b }}
)

// any writes a value of any type: by its plan where it is a pointer to a
// struct, as a part of a document where it is one.
func (w *writer) any(b []byte, v any) []byte {
	switch v := v.(type) {
	case *unstructured.Unstructured:
		if v == nil {
			return append(b, "null"...)
		}
		return w.document(b, v.Object)
	case nil, bool, string, int64, float64, map[string]any, []any:
		return w.document(b, v)
	}
	rv := reflect.ValueOf(v)
	if rv.Kind() != reflect.Pointer || rv.Type().Elem().Kind() != reflect.Struct {
		return w.slow(b, v)
	}
	if rv.IsNil() {
		return append(b, "null"...)
	}
	return planOf(rv.Type().Elem())(w, b, rv.UnsafePointer())
}

// slow leaves a value to encoding/json.
func (w *writer) slow(b []byte, v any) []byte {
	if w.failed || w.readBack {
		return w.fail(b)
	}
	encoded, err := json.Marshal(v)
	if err != nil {
		return w.fail(b)
	}
	return append(b, encoded...)
}

func (w *writer) fail(b []byte) []byte {
	w.failed = true
	return b
}

// encodeFunc appends the value that p points to.
type encodeFunc func(w *writer, b []byte, p unsafe.Pointer) []byte
