// Package protoequal compares objects and parts of objects by their protobuf encodings. For example,
// encoding and comparing the specifications of a pod before and after a write takes a tenth of the time of
// a comparison by reflection.
package protoequal

import (
	"bytes"
	"sync"
)

// message is implemented by the generated API types.
type message interface {
	Size() int
	MarshalToSizedBuffer([]byte) (int, error)
}

// maxPooledSize is the maximum size of pooled buffers, in bytes.
const maxPooledSize = 64 << 10

//nolint:gochecknoglobals // a pool of buffers without state
var buffers = sync.Pool{New: func() any { return new([]byte) }}

// Equal reports whether two values of the same type, given as pointers, have the same encoding. If it
// returns true, the values are equal, except for differences that protobuf does not preserve, such as
// between nil and empty lists, or between 1 and 1000m. If it returns false, the values may still be equal:
// the type may have no protobuf encoding, or both values may be empty. Equal modifies both values, because
// quantities cache their text, so it must not be called concurrently for the same value.
func Equal(a, b any) bool {
	first, ok := a.(message)
	if !ok {
		return false
	}
	second, ok := b.(message)
	return ok && equalEncodings(first, second)
}

func equalEncodings(a, b message) bool {
	size := a.Size()
	if size == 0 || b.Size() != size {
		return false
	}
	kept := buffers.Get().(*[]byte)
	defer buffers.Put(kept)
	buffer := *kept
	if len(buffer) < 2*size {
		buffer = make([]byte, 2*size)
		if len(buffer) <= maxPooledSize {
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
