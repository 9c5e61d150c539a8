package ownership

import (
	"encoding/binary"
	"errors"
	"math"
	"strings"

	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/value"
)

// An element is a step of a path to a field. Its encoding has the same sort order as the elements of encoded sets.
// The name of a field is encoded unchanged. The encodings of other elements start with a byte that is invalid in
// UTF-8:
//
//   - markKey, the key fields of an item in order of their names, and a final 0. Each key field consists of
//     fieldFollows, its name, 0 and a scalar.
//   - markValue and a scalar
//   - markIndex and eight bytes
type element = string

const (
	markKey   = 0xfd
	markValue = 0xfe
	markIndex = 0xff

	fieldFollows = 0x01

	// Scalars of different types are ordered by type.
	scalarNumber = 0x02 // eight bytes
	scalarString = 0x03 // text and a final 0
	scalarBool   = 0x04 // one byte
)

// errUnsupported reports an unsupported shape. Clients never receive it, because the caller then uses
// apimachinery.
var errUnsupported = errors.New("not covered")

// maxExact is the largest integer up to which float64 represents all integers exactly. Sets that
// are decoded from JSON contain numbers as float64.
const maxExact = 1 << 53

func appendInt(dst []byte, n int64) ([]byte, error) {
	if n > maxExact || n < -maxExact {
		return dst, errUnsupported
	}
	return binary.BigEndian.AppendUint64(append(dst, scalarNumber), uint64(n)^(1<<63)), nil
}

func appendString(dst []byte, s string) ([]byte, error) {
	if strings.IndexByte(s, 0) >= 0 {
		return dst, errUnsupported
	}
	return append(append(append(dst, scalarString), s...), 0), nil
}

func appendBool(dst []byte, b bool) []byte {
	if b {
		return append(dst, scalarBool, 1)
	}
	return append(dst, scalarBool, 0)
}

// appendScalar encodes a scalar of a JSON document.
func appendScalar(dst []byte, v any) ([]byte, error) {
	switch v := v.(type) {
	case string:
		return appendString(dst, v)
	case int64:
		return appendInt(dst, v)
	case int:
		return appendInt(dst, int64(v))
	case float64:
		if v != math.Trunc(v) || math.Abs(v) > maxExact || v == 0 && math.Signbit(v) {
			return dst, errUnsupported
		}
		return appendInt(dst, int64(v))
	case bool:
		return appendBool(dst, v), nil
	}
	return dst, errUnsupported
}

// fieldElement returns the element of a field, which is its name.
func fieldElement(name string) (element, error) {
	if name != "" && name[0] >= markKey {
		return "", errUnsupported
	}
	return name, nil
}

// elementOf encodes an element of a fieldpath.Set.
func elementOf(pe fieldpath.PathElement) (element, error) {
	var encoded []byte
	var err error
	switch {
	case pe.FieldName != nil:
		return fieldElement(*pe.FieldName)
	case pe.Key != nil:
		encoded = append(encoded, markKey)
		for _, f := range *pe.Key {
			encoded = append(append(append(encoded, fieldFollows), f.Name...), 0)
			if encoded, err = appendValue(encoded, f.Value); err != nil || strings.IndexByte(f.Name, 0) >= 0 {
				return "", errUnsupported
			}
		}
		encoded = append(encoded, 0)
	case pe.Value != nil:
		encoded, err = appendValue(append(encoded, markValue), *pe.Value)
	case pe.Index != nil:
		encoded = binary.BigEndian.AppendUint64(append(encoded, markIndex), uint64(*pe.Index)^(1<<63))
	default:
		err = errUnsupported
	}
	return string(encoded), err
}

func appendValue(dst []byte, v value.Value) ([]byte, error) {
	if v.IsMap() || v.IsList() || v.IsNull() {
		return dst, errUnsupported
	}
	return appendScalar(dst, v.Unstructured())
}

func numberAt(s string) int64 {
	var n uint64
	for i := range 8 {
		n = n<<8 | uint64(s[i])
	}
	return int64(n ^ (1 << 63))
}
