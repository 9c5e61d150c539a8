package changes

import (
	"encoding/binary"
	"errors"

	"mainstay.dev/mainstay/internal/codec/jsonplan"
)

// Meta is the part of an object's metadata that controllers of all kinds look at. Its
// strings are copies or parts of the bytes they were read from.
type Meta struct {
	UID        string
	Deleting   bool // has a deletionTimestamp
	Finalizers []string
	Owners     []Owner
}

// Owner is an ownerReference.
type Owner struct {
	APIVersion, Kind, Name, UID string
	Blocks                      bool // blockOwnerDeletion
}

// ErrMeta is returned for bytes that hold no object.
var ErrMeta = errors.New("the metadata of a stored object cannot be read")

// protobufMagic begins objects that are stored as protobuf.
const protobufMagic = "k8s\x00"

// MetaOf reads the metadata of a stored object without decoding the rest. nil bytes
// are no object, and have an empty Meta.
func MetaOf(value []byte) (m Meta, err error) {
	switch {
	case value == nil:
		return m, nil
	case len(value) > len(protobufMagic) && string(value[:len(protobufMagic)]) == protobufMagic:
		return metaOfProtobuf(value[len(protobufMagic):])
	}
	return metaOfJSON(value)
}

// metaOfJSON finds the metadata at any position.
func metaOfJSON(value []byte) (m Meta, err error) {
	c, i := jsonplan.NewCursor(value)
	i = c.Seek(i, "metadata")
	if i < 0 || c.At(i) != '{' {
		return m, ErrMeta
	}
	next, more := c.Enter(i)
	for more {
		name, at := c.Name(next)
		if at < 0 {
			return m, ErrMeta
		}
		switch name {
		case "uid":
			m.UID, next = c.Text(at)
		case "deletionTimestamp":
			m.Deleting = c.At(at) == '"'
			next = c.Skip(at)
		case "finalizers":
			m.Finalizers, next = textsOf(c, at)
		case "ownerReferences":
			m.Owners, next = ownersOf(c, at)
		default:
			next = c.Skip(at)
		}
		if next < 0 {
			return m, ErrMeta
		}
		if next, more = c.Next(next, '}'); next < 0 {
			return m, ErrMeta
		}
	}
	return m, nil
}

// elements calls f with the position of each element of a list, and returns the position after the
// list, or a negative number if it is not a list.
func elements(c *jsonplan.Cursor, at int, f func(at int) int) int {
	if c.At(at) != '[' {
		return c.Skip(at) // null
	}
	next, more := c.Enter(at)
	for more {
		if next = f(next); next < 0 {
			return -1
		}
		if next, more = c.Next(next, ']'); next < 0 {
			return -1
		}
	}
	return next
}

func textsOf(c *jsonplan.Cursor, at int) (texts []string, next int) {
	next = elements(c, at, func(at int) int {
		text, next := c.Text(at)
		texts = append(texts, text)
		return next
	})
	return texts, next
}

func ownersOf(c *jsonplan.Cursor, at int) (owners []Owner, next int) {
	next = elements(c, at, func(at int) int {
		var o Owner
		if c.At(at) != '{' {
			return -1
		}
		next, more := c.Enter(at)
		for more {
			name, value := c.Name(next)
			if value < 0 {
				return -1
			}
			switch name {
			case "apiVersion":
				o.APIVersion, next = c.Text(value)
			case "kind":
				o.Kind, next = c.Text(value)
			case "name":
				o.Name, next = c.Text(value)
			case "uid":
				o.UID, next = c.Text(value)
			case "blockOwnerDeletion":
				o.Blocks = c.At(value) == 't'
				next = c.Skip(value)
			default:
				next = c.Skip(value)
			}
			if next < 0 {
				return -1
			}
			if next, more = c.Next(next, '}'); next < 0 {
				return -1
			}
		}
		owners = append(owners, o)
		return next
	})
	return owners, next
}

// Numbers of fields in k8s.io/apimachinery's generated.proto.
const (
	unknownRaw = 2 // of runtime.Unknown

	objectMetadata = 1 // of every kind

	metaUID               = 5 // of ObjectMeta
	metaDeletionTimestamp = 9
	metaOwnerReferences   = 13
	metaFinalizers        = 14

	ownerKind       = 1 // of OwnerReference
	ownerName       = 3
	ownerUID        = 4
	ownerAPIVersion = 5
	ownerBlocks     = 7
)

func metaOfProtobuf(envelope []byte) (m Meta, err error) {
	raw, err := message(envelope, unknownRaw)
	if err != nil {
		return m, err
	}
	metadata, err := message(raw, objectMetadata)
	if err != nil {
		return m, err
	}
	err = eachField(metadata, func(number int, _ uint64, data []byte) error {
		switch number {
		case metaUID:
			m.UID = string(data)
		case metaDeletionTimestamp:
			m.Deleting = true
		case metaFinalizers:
			m.Finalizers = append(m.Finalizers, string(data))
		case metaOwnerReferences:
			o, err := ownerOf(data)
			m.Owners = append(m.Owners, o)
			return err
		}
		return nil
	})
	return m, err
}

func ownerOf(data []byte) (o Owner, err error) {
	err = eachField(data, func(number int, value uint64, data []byte) error {
		switch number {
		case ownerKind:
			o.Kind = string(data)
		case ownerName:
			o.Name = string(data)
		case ownerUID:
			o.UID = string(data)
		case ownerAPIVersion:
			o.APIVersion = string(data)
		case ownerBlocks:
			o.Blocks = value != 0
		}
		return nil
	})
	return o, err
}

// errFound ends a walk through fields.
var errFound = errors.New("found")

// message returns the first field with a number.
func message(data []byte, number int) (found []byte, err error) {
	err = eachField(data, func(n int, _ uint64, data []byte) error {
		if n == number {
			found = data
			return errFound
		}
		return nil
	})
	if err == errFound {
		return found, nil
	}
	if err == nil {
		err = ErrMeta
	}
	return nil, err
}

// eachField calls f with each field of a protobuf message: a number's value, or the
// bytes of anything else.
func eachField(data []byte, f func(number int, value uint64, data []byte) error) error {
	for len(data) > 0 {
		tag, n := binary.Uvarint(data)
		if n <= 0 {
			return ErrMeta
		}
		data = data[n:]
		var value uint64
		var field []byte
		switch tag & 7 {
		case 0:
			if value, n = binary.Uvarint(data); n <= 0 {
				return ErrMeta
			}
			data = data[n:]
		case 2:
			size, n := binary.Uvarint(data)
			if n <= 0 || size > uint64(len(data)-n) {
				return ErrMeta
			}
			field, data = data[n:n+int(size)], data[n+int(size):]
		case 1:
			if len(data) < 8 {
				return ErrMeta
			}
			data = data[8:]
		case 5:
			if len(data) < 4 {
				return ErrMeta
			}
			data = data[4:]
		default:
			return ErrMeta
		}
		if err := f(int(tag>>3), value, field); err != nil {
			return err
		}
	}
	return nil
}
