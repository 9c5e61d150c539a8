// Package protoequal compares objects, and parts of objects, by their protobuf encodings.
// Most writes leave a pod's specification as it is, and to encode it twice takes a tenth of
// what reflection takes to find that.
package protoequal

import (
	"bytes"
	"sync"
)

// message is what the generated types of API objects and of their parts are.
type message interface {
	Size() int
	MarshalToSizedBuffer([]byte) (int, error)
}

// maxKept bounds the buffers that are kept for the next comparison.
const maxKept = 64 << 10

//nolint:gochecknoglobals // a pool of buffers has no state that one server could see of another
var buffers = sync.Pool{New: func() any { return new([]byte) }}

// Equal reports whether two pointers to values of one type have the same encoding. Then the
// values are the same but for what an encoding does not tell: an absent list from an empty
// one, 1 from 1000m. Where it is false they may be the same, too: the type has no such
// encoding, or nothing is in them. Both are written to: a quantity keeps the text that it
// is encoded as.
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
