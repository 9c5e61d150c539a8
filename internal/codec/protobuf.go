package codec

import (
	"encoding/binary"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// protobufMessage is implemented by the types of k8s.io/api.
type protobufMessage interface {
	Size() int
	MarshalToSizedBuffer([]byte) (int, error)
	Unmarshal([]byte) error
}

// Protobuf tags of runtime.Unknown, the envelope of every object: typeMeta = 1, raw = 2,
// contentEncoding = 3, contentType = 4.
const (
	tagTypeMeta        = 1<<3 | 2
	tagRaw             = 2<<3 | 2
	tagContentEncoding = 3<<3 | 2
	tagContentType     = 4<<3 | 2
)

// HasProtobuf reports whether an object has a protobuf encoding.
func HasProtobuf(obj runtime.Object) bool {
	_, ok := obj.(protobufMessage)
	return ok
}

// appendProtobuf appends the magic and an object in its envelope.
func appendProtobuf(dst []byte, gvk schema.GroupVersionKind, obj runtime.Object) ([]byte, error) {
	message, ok := obj.(protobufMessage)
	if !ok {
		return nil, fmt.Errorf("%s has no protobuf form", gvk.Kind)
	}
	size := message.Size()
	if dst == nil {
		dst = make([]byte, 0, EnvelopeSize(gvk, size))
	}
	dst = AppendEnvelope(dst, gvk, size)
	dst, err := appendMessage(dst, message, size)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", gvk.Kind, err)
	}
	return CloseEnvelope(dst), nil
}

func appendMessage(dst []byte, message protobufMessage, size int) ([]byte, error) {
	start := len(dst)
	if cap(dst)-start < size {
		grown := make([]byte, start, start+size+envelopeTail)
		copy(grown, dst)
		dst = grown
	}
	dst = dst[:start+size]
	if _, err := message.MarshalToSizedBuffer(dst[start:]); err != nil {
		return nil, err
	}
	return dst, nil
}

// envelopeTail is the size of the output of CloseEnvelope.
const envelopeTail = 4

// EnvelopeSize returns the total size of magic, envelope, and a message of size bytes.
func EnvelopeSize(gvk schema.GroupVersionKind, size int) int {
	meta := typeMetaSize(gvk)
	return len(protobufMagic) + 1 + uvarintSize(meta) + meta + 1 + uvarintSize(size) + size + envelopeTail
}

// AppendEnvelope appends the magic and the beginning of the envelope. The caller must append a
// message of size bytes, and then call CloseEnvelope.
func AppendEnvelope(dst []byte, gvk schema.GroupVersionKind, size int) []byte {
	apiVersion, kind := gvk.GroupVersion().String(), gvk.Kind
	dst = append(dst, protobufMagic[:]...)
	dst = append(dst, tagTypeMeta)
	dst = binary.AppendUvarint(dst, uint64(typeMetaSize(gvk)))
	dst = appendBytesField(dst, 1<<3|2, apiVersion)
	dst = appendBytesField(dst, 2<<3|2, kind)
	dst = append(dst, tagRaw)
	return binary.AppendUvarint(dst, uint64(size))
}

// CloseEnvelope appends the end of an envelope that AppendEnvelope has started.
func CloseEnvelope(dst []byte) []byte {
	return append(dst, tagContentEncoding, 0, tagContentType, 0)
}

func typeMetaSize(gvk schema.GroupVersionKind) int {
	apiVersion := gvk.GroupVersion().String()
	return 1 + uvarintSize(len(apiVersion)) + len(apiVersion) + 1 + uvarintSize(len(gvk.Kind)) + len(gvk.Kind)
}

func appendBytesField(dst []byte, tag byte, s string) []byte {
	dst = append(dst, tag)
	dst = binary.AppendUvarint(dst, uint64(len(s)))
	return append(dst, s...)
}

func uvarintSize(n int) int {
	size := 1
	for u := uint64(n); u >= 0x80; u >>= 7 {
		size++
	}
	return size
}
