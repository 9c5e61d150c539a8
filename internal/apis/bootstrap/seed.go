package bootstrap

import (
	"bytes"
	"compress/flate"
	_ "embed"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// seedFile contains the encodings of the objects that are written on the first start and are equal in every
// cluster, except for UIDs and times. A test in package controlplane records it by calling EncodeSeed for
// objects with the UID SeedUID and the time SeedTime.
//
//go:embed data/seed.bin
var seedFile string

// SeedUID is the UID of all objects in the recording. It has the same length as any other UID, so that it can
// be replaced in place.
const SeedUID types.UID = "5eed5eed-5eed-4eed-8eed-5eed5eed5eed"

// SeedTime returns the creation time of all objects in the recording. Its varint encoding has the same length
// as that of any time from 1978 to 3058.
func SeedTime() time.Time { return time.Unix(0x5eed5eed, 0) }

// Stored is an object in its stored encoding. Key does not include the prefix that all keys have.
type Stored struct {
	Key   string
	Value []byte
}

// Seed returns the recorded objects: namespaces, roles, bindings, priority classes, and the configuration of
// flow control. now becomes their creation time, and uidOf returns the UID for the object with a key. Seed
// returns nil for times before 1978 or after 3058. The caller owns the result. An error means that the
// recording in the binary is damaged.
func Seed(now time.Time, uidOf func(key string) types.UID) ([]Stored, error) {
	entries, err := DecodeSeed([]byte(seedFile))
	if err != nil {
		return nil, fmt.Errorf("read the recorded objects of every cluster: %w", err)
	}
	for _, e := range entries {
		if !SetIdentity(e.Value, now, uidOf(e.Key)) {
			return nil, nil
		}
	}
	return entries, nil
}

// SetIdentity replaces SeedTime and SeedUID in the encoding of an object, which is protobuf or JSON. It returns false
// for times before 1978 or after 3058.
func SetIdentity(value []byte, now time.Time, uid types.UID) bool {
	from, to := protobufSeconds(SeedTime()), protobufSeconds(now)
	if len(from) != len(to) {
		return false
	}
	replaceInPlace(value, []byte(SeedUID), []byte(uid))
	replaceInPlace(value, from, to)
	replaceInPlace(value, formatTime(SeedTime()), formatTime(now))
	return true
}

// formatTime formats a time as in the JSON of an object.
func formatTime(t time.Time) []byte { return t.UTC().AppendFormat(nil, time.RFC3339) }

// protobufSeconds returns the encoded field "seconds" of a protobuf timestamp.
func protobufSeconds(t time.Time) []byte {
	return binary.AppendUvarint([]byte{1 << 3}, uint64(t.Unix()))
}

// replaceInPlace replaces all occurrences of from in value with to, which must have the same
// length.
func replaceInPlace(value, from, to []byte) {
	for {
		at := bytes.Index(value, from)
		if at < 0 {
			return
		}
		copy(value[at:], to)
		value = value[at+len(from):]
	}
}

// EncodeSeed encodes entries in the format that DecodeSeed reads: the length and the bytes of each key and
// value, compressed with flate. In practice, it does not fail, because the compressor writes to memory.
func EncodeSeed(entries []Stored) ([]byte, error) {
	var plain []byte
	for _, e := range entries {
		plain = binary.AppendUvarint(plain, uint64(len(e.Key)))
		plain = append(plain, e.Key...)
		plain = binary.AppendUvarint(plain, uint64(len(e.Value)))
		plain = append(plain, e.Value...)
	}
	var compressed bytes.Buffer
	w, err := flate.NewWriter(&compressed, flate.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(plain); err != nil {
		return nil, err
	}
	err = w.Close()
	return compressed.Bytes(), err
}

// maxSeedBytes is the maximum size of decoded entries. It limits the memory that damaged input can use.
const maxSeedBytes = 16 << 20

var errSeed = errors.New("the encoded objects are truncated")

// DecodeSeed decodes the result of EncodeSeed. The entries do not share memory with encoded. It
// returns an error if encoded is damaged.
func DecodeSeed(encoded []byte) ([]Stored, error) {
	plain, err := io.ReadAll(io.LimitReader(flate.NewReader(bytes.NewReader(encoded)), maxSeedBytes))
	if err != nil {
		return nil, err
	}
	next := func() ([]byte, bool) {
		length, n := binary.Uvarint(plain)
		if n <= 0 || length > uint64(len(plain)-n) {
			return nil, false
		}
		part := plain[n:][:length:length]
		plain = plain[n+int(length):]
		return part, true
	}
	var entries []Stored
	for len(plain) > 0 {
		key, ok := next()
		if !ok {
			return nil, errSeed
		}
		value, ok := next()
		if !ok {
			return nil, errSeed
		}
		entries = append(entries, Stored{string(key), value})
	}
	return entries, nil
}
