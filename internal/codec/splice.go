package codec

import (
	"encoding/binary"
	"strconv"
)

// Protobuf tags of the metadata fields used here. Encoded metadata starts with name, generateName,
// namespace, selfLink, uid and resourceVersion (tags 1 to 6).
const (
	tagMetadata        = 1<<3 | 2
	tagName            = 1<<3 | 2
	tagUID             = 5<<3 | 2
	tagResourceVersion = 6<<3 | 2
	tagLabels          = 11<<3 | 2
)

// splice converts a stored protobuf value to the message for clients by inserting the resourceVersion,
// which is empty in the stored value.
type splice struct {
	// meta is the stored metadata. Its empty resourceVersion ends at position at. rest is the data
	// after the metadata.
	meta, rest []byte
	at         int
	revision   [20]byte
	digits     int
}

// spliceOf finds the position of the resourceVersion in a stored value. It returns false if the value does
// not have the format that EncodeStored writes.
func spliceOf(value []byte, revision int64) (s splice, ok bool) {
	message, ok := storedMessage(value)
	if !ok {
		return s, false
	}
	if s.meta, s.rest, ok = cutField(message, tagMetadata); !ok {
		return s, false
	}
	rest := s.meta
	for tag := byte(tagName); tag < tagResourceVersion; tag += 1 << 3 {
		if _, rest, ok = cutField(rest, tag); !ok {
			return s, false
		}
	}
	var stored []byte
	if stored, rest, ok = cutField(rest, tagResourceVersion); !ok || len(stored) > 0 {
		return s, false
	}
	s.at = len(s.meta) - len(rest)
	if revision != 0 {
		s.digits = len(strconv.AppendInt(s.revision[:0], revision, 10))
	}
	return s, true
}

// storedMessage returns the message in a stored value.
func storedMessage(value []byte) ([]byte, bool) {
	if len(value) < len(protobufMagic) || string(value[:len(protobufMagic)]) != string(protobufMagic[:]) {
		return nil, false
	}
	_, rest, ok := cutField(value[len(protobufMagic):], tagTypeMeta)
	if !ok {
		return nil, false
	}
	message, _, ok := cutField(rest, tagRaw)
	return message, ok
}

// cutField splits b after its first field, which must have the given tag. It returns the content of the
// field and the remaining data.
func cutField(b []byte, tag byte) (content, rest []byte, ok bool) {
	if len(b) < 2 || b[0] != tag {
		return nil, nil, false
	}
	size, n := uint64(b[1]), 1
	if size >= 0x80 {
		if size, n = binary.Uvarint(b[1:]); n <= 0 {
			return nil, nil, false
		}
	}
	b = b[1+n:]
	if size > uint64(len(b)) {
		return nil, nil, false
	}
	return b[:size], b[size:], true
}

func (s *splice) size() int {
	meta := len(s.meta) + s.digits
	return 1 + uvarintSize(meta) + meta + len(s.rest)
}

func (s *splice) append(dst []byte) []byte {
	dst = append(dst, tagMetadata)
	dst = binary.AppendUvarint(dst, uint64(len(s.meta)+s.digits))
	dst = append(dst, s.meta[:s.at-1]...)
	dst = append(dst, byte(s.digits))
	dst = append(dst, s.revision[:s.digits]...)
	dst = append(dst, s.meta[s.at:]...)
	return append(dst, s.rest...)
}

// storedUIDOf returns the UID in the metadata of a stored protobuf value. It returns false if the value does
// not have the format that EncodeStored writes.
func storedUIDOf(value []byte) (uid []byte, ok bool) {
	message, ok := storedMessage(value)
	if !ok {
		return nil, false
	}
	meta, _, ok := cutField(message, tagMetadata)
	for tag := byte(tagName); ok && tag < tagUID; tag += 1 << 3 {
		_, meta, ok = cutField(meta, tag)
	}
	if !ok {
		return nil, false
	}
	uid, _, ok = cutField(meta, tagUID)
	return uid, ok
}

// storedLabels contains the encoded labels from the metadata of a stored protobuf value. Searching
// them is cheaper than building a map.
type storedLabels []byte

// storedLabelsOf returns the labels of a stored value. It returns false if the value does not have the format
// that EncodeStored writes.
func storedLabelsOf(value []byte) (storedLabels, bool) {
	message, ok := storedMessage(value)
	if !ok {
		return nil, false
	}
	meta, _, ok := cutField(message, tagMetadata)
	if !ok {
		return nil, false
	}
	for len(meta) > 0 && meta[0] < tagLabels {
		if meta, ok = skipField(meta); !ok {
			return nil, false
		}
	}
	labels := meta
	for len(meta) > 0 && meta[0] == tagLabels {
		if _, meta, ok = cutField(meta, tagLabels); !ok {
			return nil, false
		}
	}
	return storedLabels(labels[:len(labels)-len(meta)]), true
}

// skipField returns the data after the first field of b. The tag of the field must have one byte.
func skipField(b []byte) ([]byte, bool) {
	switch b[0] & 7 {
	case 0:
		_, n := binary.Uvarint(b[1:])
		if n <= 0 {
			return nil, false
		}
		return b[1+n:], true
	case 2:
		_, rest, ok := cutField(b, b[0])
		return rest, ok
	}
	return nil, false
}

// Lookup implements labels.Labels.
func (l storedLabels) Lookup(label string) (value string, exists bool) {
	for rest := []byte(l); len(rest) > 0; {
		entry, after, ok := cutField(rest, tagLabels)
		if !ok {
			return "", false
		}
		key, entry, ok := cutField(entry, 1<<3|2)
		if !ok {
			return "", false
		}
		if string(key) == label {
			found, _, ok := cutField(entry, 2<<3|2)
			return string(found), ok
		}
		rest = after
	}
	return "", false
}

// Has implements labels.Labels.
func (l storedLabels) Has(label string) bool {
	_, ok := l.Lookup(label)
	return ok
}

// Get implements labels.Labels.
func (l storedLabels) Get(label string) string {
	value, _ := l.Lookup(label)
	return value
}
