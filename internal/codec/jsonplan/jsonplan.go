// Package jsonplan encodes and decodes API objects as JSON, faster than encoding/json, with a plan
// that is computed once for each Go type.
//
// The output is identical to the output of encoding/json. The decoder accepts the input that sigs.k8s.io/json
// accepts in strict mode; for any other input it reports failure, and the caller uses that package to get the
// error message. The plans include the API types with JSON methods, such as metav1.Time. Other types with
// such methods are encoded with encoding/json and decoded with their own methods. A plan depends on its type
// only, so plans are cached for the lifetime of the process.
package jsonplan

import (
	"encoding/json"
	"reflect"
	"sync"
	"unsafe"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Append appends the JSON encoding of v to dst. v is a pointer to a struct or an *unstructured.Unstructured,
// and must not be modified during the call. On error, it returns dst and the error of encoding/json.
func Append(dst []byte, v any) ([]byte, error) {
	out, ok := appendWith(dst, v, false)
	if !ok {
		return appendSlowly(dst, v)
	}
	return out, nil
}

// AppendReadBack appends the JSON encoding that v, a pointer to a struct, would have after it was
// encoded to protobuf and decoded again: empty lists become nil, for example. It returns dst and
// false if the result cannot be determined without a real round trip.
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

// Marshal is like Append, but returns a new slice without excess capacity.
func Marshal(v any) ([]byte, error) {
	scratch := scratchPool.Get().(*[]byte)
	b, err := Append((*scratch)[:0], v)
	return copyAndRecycle(scratch, b), err
}

// MarshalReadBack is like AppendReadBack, but returns a new slice without excess capacity.
func MarshalReadBack(v any) ([]byte, bool) {
	scratch := scratchPool.Get().(*[]byte)
	b, ok := AppendReadBack((*scratch)[:0], v)
	return copyAndRecycle(scratch, b), ok
}

// maxScratch is the maximum capacity of pooled buffers, in bytes.
const maxScratch = 1 << 20

func copyAndRecycle(scratch *[]byte, b []byte) []byte {
	out := make([]byte, len(b))
	copy(out, b)
	if cap(b) <= maxScratch {
		*scratch = b[:0]
	}
	scratchPool.Put(scratch)
	return out
}

// writer is the state of encoding one object. The output is not a field, but a parameter and result
// of the functions, so that it stays in registers.
type writer struct {
	// keys is a stack with the keys of the maps that are being encoded.
	keys []string
	// scratch and copy are temporary memory for quantities.
	scratch [32]byte
	copy    resource.Quantity
	// readBack means to encode the object at top as it would be after a round trip through
	// protobuf.
	readBack bool
	top      unsafe.Pointer
	// failed means that encoding/json must encode the object instead.
	failed bool
}

//nolint:gochecknoglobals // pools of buffers without state
var (
	writerPool  = sync.Pool{New: func() any { return new(writer) }}
	scratchPool = sync.Pool{New: func() any { b := make([]byte, 0, 16<<10); return &b }}
)

// any appends a value of any type. It encodes a pointer to a struct with the plan of the struct, and JSON
// values as a document.
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

// encodeFunc appends the encoding of the value at p to b.
type encodeFunc func(w *writer, b []byte, p unsafe.Pointer) []byte
