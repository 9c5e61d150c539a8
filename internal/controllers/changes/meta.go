package changes

import (
	"encoding/binary"
	"errors"

	"mainstay.dev/mainstay/internal/codec/jsonplan"
)

// Meta contains the part of an object's metadata that controllers use. Its strings may share memory with the
// parsed bytes.
type Meta struct {
	UID        string
	Deleting   bool // has a deletionTimestamp
	Finalizers []string
	Owners     []Owner
}

// Owner contains the fields of an owner reference that controllers use.
type Owner struct {
	APIVersion, Kind, Name, UID string
	BlockOwnerDeletion          bool // false if not set
}

// ErrMeta is returned by ParseMeta if the bytes are not a stored object, for example because they are
// encrypted.
var ErrMeta = errors.New("the metadata of a stored object cannot be read")

// protobufMagic is the prefix of objects in protobuf encoding.
const protobufMagic = "k8s\x00"

// ParseMeta returns the metadata of a stored object in JSON or protobuf encoding, without decoding the rest of
// the object. For nil, it returns an empty Meta. The error is always ErrMeta.
func ParseMeta(value []byte) (m Meta, err error) {
	switch {
	case value == nil:
		return m, nil
	case len(value) > len(protobufMagic) && string(value[:len(protobufMagic)]) == protobufMagic:
		return parseProtobuf(value[len(protobufMagic):])
	}
	return parseJSON(value)
}

func parseJSON(value []byte) (m Meta, err error) {
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
			m.Finalizers, next = parseStrings(c, at)
		case "ownerReferences":
			m.Owners, next = parseOwners(c, at)
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

// eachElement calls f with the position of each element of a JSON array. f returns the position after the
// element, or a negative number to stop. The result is the position after the array, or a negative number if
// the array is invalid or f has stopped. null is treated as an empty array.
func eachElement(c *jsonplan.Cursor, at int, f func(at int) int) int {
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

func parseStrings(c *jsonplan.Cursor, at int) (texts []string, next int) {
	next = eachElement(c, at, func(at int) int {
		text, next := c.Text(at)
		texts = append(texts, text)
		return next
	})
	return texts, next
}

func parseOwners(c *jsonplan.Cursor, at int) (owners []Owner, next int) {
	next = eachElement(c, at, func(at int) int {
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
				o.BlockOwnerDeletion = c.At(value) == 't'
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

// The numbers of fields in k8s.io/apimachinery's generated.proto.
const (
	unknownRaw = 2 // of runtime.Unknown

	objectMetadata = 1 // of every kind

	metaUID               = 5 // of ObjectMeta
	metaDeletionTimestamp = 9
	metaOwnerReferences   = 13
	metaFinalizers        = 14

	ownerKind               = 1 // of OwnerReference
	ownerName               = 3
	ownerUID                = 4
	ownerAPIVersion         = 5
	ownerBlockOwnerDeletion = 7
)

func parseProtobuf(envelope []byte) (m Meta, err error) {
	raw, err := firstField(envelope, unknownRaw)
	if err != nil {
		return m, err
	}
	metadata, err := firstField(raw, objectMetadata)
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
			o, err := parseOwner(data)
			m.Owners = append(m.Owners, o)
			return err
		}
		return nil
	})
	return m, err
}

func parseOwner(data []byte) (o Owner, err error) {
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
		case ownerBlockOwnerDeletion:
			o.BlockOwnerDeletion = value != 0
		}
		return nil
	})
	return o, err
}

// errFound stops eachField when firstField has found the field.
var errFound = errors.New("found")

// firstField returns the first field with the given number, or ErrMeta if there is none.
func firstField(data []byte, number int) (found []byte, err error) {
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

// eachField calls f with each field of a protobuf message. value is the value of a varint field. data is the
// content of a length-delimited field, and shares memory with the message.
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
