// Package jsonplan encodes and decodes API objects as JSON, with a plan that is computed once for
// each Go type. Its output equals that of encoding/json, byte for byte. Its input is the input that
// sigs.k8s.io/json accepts in strict mode; otherwise the package reports failure. It supports the
// types of apimachinery with their own encoders, and leaves all other types, and all error
// messages, to those two packages. A plan depends on its type only and never changes, so plans are
// cached for the lifetime of the process.
package jsonplan

import (
	"encoding/json"
	"reflect"
	"sync"
	"unsafe"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Append appends the JSON of v, a pointer to a struct or an *unstructured.Unstructured. v must not
// be modified during the call.
func Append(dst []byte, v any) ([]byte, error) {
	out, ok := appendWith(dst, v, false)
	if !ok {
		return appendSlowly(dst, v)
	}
	return out, nil
}

// AppendReadBack appends the JSON of v, a pointer to a struct, after a round trip through protobuf,
// in which an empty list becomes nil. It returns false if only a real round trip can determine the
// result.
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

// writer is the state of the encoding of an object. The output is passed as an argument and result
// instead, so that it stays in registers.
type writer struct {
	// keys is a stack of the keys of the maps that are being written.
	keys []string
	// scratch and copy are for quantities.
	scratch [32]byte
	copy    resource.Quantity
	// readBack: encode the object at top as it would be after a round trip through protobuf.
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

// slow encodes a value with encoding/json.
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
