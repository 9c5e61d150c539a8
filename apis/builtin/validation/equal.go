package validation

import (
	"bytes"
	"sync"

	"k8s.io/apimachinery/pkg/api/equality"
)

// Changed reports whether a value differs from what it was. Rules that came
// later than objects they refuse are for changed values only, so that such
// objects stay editable (ratcheting).
func Changed[T any](value, old T) bool { return !Equal(&value, &old) }

// Equal reports whether two pointers to one type, neither of them nil, point to the same values.
// An absent list is an empty one, and quantities are the same if their amounts are.
//
// Most writes change metadata alone, and reflection takes ten times as long to find
// that a pod's specification is what it was as encoding it twice does. So types that
// have a protobuf encoding are compared by that first: the same bytes are the same
// values, while other bytes may be.
func Equal(a, b any) bool {
	if a, ok := a.(message); ok {
		if b, ok := b.(message); ok && sameBytes(a, b) {
			return true
		}
	}
	return equality.Semantic.DeepEqual(a, b)
}

// message is what the generated types of API objects and of their parts are.
type message interface {
	Size() int
	MarshalToSizedBuffer([]byte) (int, error)
}

// maxKept bounds the buffers that are kept for the next comparison.
const maxKept = 64 << 10

var buffers = sync.Pool{New: func() any { return new([]byte) }}

// sameBytes reports whether the encodings of two messages are the same. It is false
// for empty ones.
func sameBytes(a, b message) bool {
	size := a.Size()
	if size == 0 || b.Size() != size {
		return false
	}
	kept := buffers.Get().(*[]byte)
	defer buffers.Put(kept)
	buffer := *kept
	if len(buffer) < 2*size {
		buffer = make([]byte, 2*size)
		if len(buffer) <= maxKept {
			*kept = buffer
		}
	}
	first, second := buffer[:size], buffer[size:2*size]
	if n, err := a.MarshalToSizedBuffer(first); err != nil || n != size {
		return false
	}
	if n, err := b.MarshalToSizedBuffer(second); err != nil || n != size {
		return false
	}
	return bytes.Equal(first, second)
}
