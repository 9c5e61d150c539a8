package kms

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Fields of the stored message, which is k8s.io/apiserver's EncryptedObject
// (pkg/storage/value/encrypt/envelope/kmsv2/v2/api.proto). The message is written and read field by field, so
// that the encrypted value is appended to it and never copied.
const (
	fieldData        protowire.Number = 1
	fieldKeyID       protowire.Number = 2
	fieldSource      protowire.Number = 3
	fieldAnnotations protowire.Number = 4
	fieldSourceType  protowire.Number = 5

	fieldMapKey   protowire.Number = 1
	fieldMapValue protowire.Number = 2
)

// sourceType is the type of a decrypted source.
type sourceType int32

const (
	sourceKey  sourceType = 0 // the key of AES-GCM itself; kube-apiserver wrote it before 1.29
	sourceSeed sourceType = 1 // a seed from which the keys are derived
)

// Limits, in bytes.
const (
	maxKeyID       = 1 << 10
	maxSource      = 1 << 10
	maxAnnotations = 32 << 10
)

// envelope is the stored message without the value. It is the input of the plugin.
type envelope struct {
	keyID       string
	source      []byte // the key or seed, encrypted by the plugin
	annotations map[string][]byte
	sourceType  sourceType
}

// check returns an error if an envelope from the store or from a plugin is invalid.
func (e *envelope) check() error {
	if e.sourceType != sourceKey && e.sourceType != sourceSeed {
		return fmt.Errorf("unknown encryptedDEKSourceType: %d", e.sourceType)
	}
	switch n := len(e.source); {
	case n == 0:
		return errors.New("failed to validate encrypted DEK source: encrypted DEK source is empty")
	case n > maxSource:
		return fmt.Errorf("failed to validate encrypted DEK source: encrypted DEK source is %d bytes, which exceeds the max size of %d", n, maxSource)
	}
	if _, err := checkKeyID(e.keyID); err != nil {
		return fmt.Errorf("failed to validate key id: %w", err)
	}
	if err := checkAnnotations(e.annotations); err != nil {
		return fmt.Errorf("failed to validate annotations: %w", err)
	}
	return nil
}

// checkKeyID returns an error if a key ID is invalid. label is the value of the metric label error.
func checkKeyID(id string) (label string, err error) {
	switch {
	case id == "":
		return "empty", errors.New("keyID is empty")
	case len(id) > maxKeyID:
		return "too_long", fmt.Errorf("keyID is %d bytes, which exceeds the max size of %d", len(id), maxKeyID)
	}
	return "ok", nil
}

func checkAnnotations(annotations map[string][]byte) error {
	var errs []error
	size := 0
	for _, name := range slices.Sorted(maps.Keys(annotations)) {
		if faults := validation.IsFullyQualifiedDomainName(field.NewPath("annotations"), name); len(faults) > 0 {
			errs = append(errs, faults.ToAggregate())
		}
		size += len(name) + len(annotations[name])
	}
	if size > maxAnnotations {
		errs = append(errs, fmt.Errorf("total size of annotations is %d, which exceeds the max size of %d", size, maxAnnotations))
	}
	return errors.Join(errs...)
}

// digest returns a hash of an envelope. Envelopes that are equal for a plugin have the same digest.
func (e *envelope) digest() [sha256.Size]byte {
	var b []byte
	add := func(part []byte) {
		b = binary.BigEndian.AppendUint32(b, uint32(len(part)))
		b = append(b, part...)
	}
	b = binary.BigEndian.AppendUint32(b, uint32(e.sourceType))
	add(e.source)
	add([]byte(e.keyID))
	for _, name := range slices.Sorted(maps.Keys(e.annotations)) {
		add([]byte(name))
		add(e.annotations[name])
	}
	return sha256.Sum256(b)
}

// encode returns the fields of the message after the value.
func (e *envelope) encode() []byte {
	b := protowire.AppendTag(nil, fieldKeyID, protowire.BytesType)
	b = protowire.AppendString(b, e.keyID)
	b = protowire.AppendTag(b, fieldSource, protowire.BytesType)
	b = protowire.AppendBytes(b, e.source)
	for _, name := range slices.Sorted(maps.Keys(e.annotations)) {
		pair := protowire.AppendTag(nil, fieldMapKey, protowire.BytesType)
		pair = protowire.AppendString(pair, name)
		pair = protowire.AppendTag(pair, fieldMapValue, protowire.BytesType)
		pair = protowire.AppendBytes(pair, e.annotations[name])
		b = protowire.AppendTag(b, fieldAnnotations, protowire.BytesType)
		b = protowire.AppendBytes(b, pair)
	}
	if e.sourceType != 0 {
		b = protowire.AppendTag(b, fieldSourceType, protowire.VarintType)
		b = protowire.AppendVarint(b, uint64(e.sourceType))
	}
	return b
}

var errMessage = errors.New("the stored data is not an EncryptedObject")

// decode decodes a message. value and the envelope share the memory of data.
func decode(data []byte) (value []byte, e *envelope, err error) {
	e = &envelope{}
	for len(data) > 0 {
		number, kind, n := protowire.ConsumeTag(data)
		if n < 0 {
			return nil, nil, errMessage
		}
		data = data[n:]
		if n, err = e.decodeField(number, kind, data, &value); err != nil {
			return nil, nil, err
		}
		data = data[n:]
	}
	if len(value) == 0 {
		return nil, nil, errors.New("encrypted data is empty")
	}
	return value, e, e.check()
}

// decodeField decodes one field and returns its length. It skips unknown fields.
func (e *envelope) decodeField(number protowire.Number, kind protowire.Type, data []byte, value *[]byte) (int, error) {
	var n int
	switch {
	case number == fieldSourceType && kind == protowire.VarintType:
		var v uint64
		v, n = protowire.ConsumeVarint(data)
		e.sourceType = sourceType(v)
	case number >= fieldData && number <= fieldAnnotations && kind == protowire.BytesType:
		var v []byte
		if v, n = protowire.ConsumeBytes(data); n < 0 {
			break
		}
		switch number {
		case fieldData:
			*value = v
		case fieldSource:
			e.source = v
		case fieldKeyID:
			if !utf8.Valid(v) {
				return 0, errMessage
			}
			e.keyID = string(v)
		case fieldAnnotations:
			return n, e.decodeAnnotation(v)
		}
	default:
		n = protowire.ConsumeFieldValue(number, kind, data)
	}
	if n < 0 {
		return 0, errMessage
	}
	return n, nil
}

// decodeAnnotation decodes one annotation.
func (e *envelope) decodeAnnotation(pair []byte) error {
	var name string
	var value []byte
	for len(pair) > 0 {
		number, kind, n := protowire.ConsumeTag(pair)
		if n < 0 {
			return errMessage
		}
		pair = pair[n:]
		if (number == fieldMapKey || number == fieldMapValue) && kind == protowire.BytesType {
			var v []byte
			if v, n = protowire.ConsumeBytes(pair); n >= 0 && number == fieldMapKey {
				name = string(v)
			} else if n >= 0 {
				value = v
			}
		} else {
			n = protowire.ConsumeFieldValue(number, kind, pair)
		}
		if n < 0 {
			return errMessage
		}
		pair = pair[n:]
	}
	if !utf8.ValidString(name) {
		return errMessage
	}
	if e.annotations == nil {
		e.annotations = map[string][]byte{}
	}
	e.annotations[name] = value
	return nil
}
