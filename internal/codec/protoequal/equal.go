// Package protoequal compares objects, and parts of objects, by their protobuf encodings. Most
// writes do not change the specification of a pod; two encodings take a tenth of the time of a
// comparison with reflection.
package protoequal

import (
	"bytes"
	"sync"
)

// message is the interface of the generated API types.
type message interface {
	Size() int
	MarshalToSizedBuffer([]byte) (int, error)
}

// maxKept is the maximum size of buffers for reuse, in bytes.
const maxKept = 64 << 10

//nolint:gochecknoglobals // a pool of buffers has no state that one server could see of another
var buffers = sync.Pool{New: func() any { return new([]byte) }}

// Equal reports whether two pointers to values of one type have the same encoding. The values are
// then equal, except for differences that protobuf does not preserve: nil and empty lists, 1 and
// 1000m. false is not definite: the type may have no such encoding, or both may be empty. Equal
// modifies both values, because a quantity caches its text.
func Equal(a, b any) bool {
	first, ok := a.(message)
	if !ok {
		return false
	}
	second, ok := b.(message)
	return ok && same(first, second)
}

func same(a, b message) bool {
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
