// Package versionkey defines the layout of versions in a Pebble database. A version is the value of a key at
// a revision. The key of a version in the database is
//
//	k<key> 00 <^revision: 8>
//
// where ^revision is the bitwise complement of the revision in big endian, so that the newest version of a
// key sorts first. The version of a key at revision R is the first one at or after k<key> 00 <^R>. Keys
// contain no zero byte, so that all versions of "a" sort before the versions of "ab".
//
// The lowest bit of the first byte of a value is set if the version is a deletion.
package versionkey

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"mainstay.dev/mainstay/internal/storage/kv"
)

const (
	// Prefix is the first byte of all version keys.
	Prefix = 'k'
	// FlagDeleted is set in the first byte of the value of a deletion.
	FlagDeleted = 1 << 0

	suffixLen = 8
)

// Len returns the length of the version keys of a key, in bytes.
func Len(key string) int { return 1 + len(key) + 1 + suffixLen }

// Put writes a version key to dst, which must have length Len(key).
func Put(dst []byte, key string, rev kv.Revision) {
	dst[0] = Prefix
	copy(dst[1:], key)
	dst[1+len(key)] = 0
	binary.BigEndian.PutUint64(dst[2+len(key):], ^uint64(rev))
}

// Append appends a version key to dst.
func Append(dst []byte, key string, rev kv.Revision) []byte {
	dst = append(dst, Prefix)
	dst = append(dst, key...)
	dst = append(dst, 0)
	return binary.BigEndian.AppendUint64(dst, ^uint64(rev))
}

// Split parses a version key. The returned key aliases raw. The error wraps kv.ErrCorrupt.
func Split(raw []byte) (key []byte, rev kv.Revision, err error) {
	n := len(raw) - suffixLen - 1
	if n < 1 || raw[0] != Prefix || raw[n] != 0 {
		return nil, 0, fmt.Errorf("malformed version key %q: %w", raw, kv.ErrCorrupt)
	}
	return raw[1:n], kv.Revision(^binary.BigEndian.Uint64(raw[n+1:])), nil
}

// AppendBound appends a database key that separates the versions of keys smaller than bound from the versions
// of all other keys. Unlike a key, bound may contain a zero byte. All bounds that begin with "a\x00" are
// equivalent, because no key begins with it.
func AppendBound(dst []byte, bound string) []byte {
	dst = append(dst, Prefix)
	for i := 0; i < len(bound); i++ {
		if bound[i] == 0 {
			dst = append(dst, bound[:i]...)
			return append(dst, 1)
		}
	}
	return append(dst, bound...)
}

// Bounds returns the options of an iterator over the versions of the keys in [start, end). An empty end means
// no end.
func Bounds(start, end string) pebble.IterOptions {
	options := pebble.IterOptions{LowerBound: AppendBound(nil, start), UpperBound: []byte{Prefix + 1}}
	if end != "" {
		options.UpperBound = AppendBound(nil, max(start, end))
	}
	return options
}

// NewComparer returns a bytewise comparer, like Pebble's default, that splits a version key into key and
// revision, so that bloom filters and seeks use keys without versions. The name of the comparer is part of
// the format on disk.
func NewComparer() *pebble.Comparer {
	c := *pebble.DefaultComparer
	c.Name = "mainstay.versions.1"
	c.Split = func(key []byte) int {
		if len(key) > 0 && key[0] == Prefix {
			if i := bytes.IndexByte(key, 0); i >= 0 {
				return i + 1
			}
		}
		return len(key)
	}
	c.ImmediateSuccessor = func(dst, prefix []byte) []byte {
		dst = append(dst, prefix...)
		if n := len(dst); n > 0 && dst[0] == Prefix && dst[n-1] == 0 {
			dst[n-1] = 1
			return dst
		}
		return append(dst, 0)
	}
	return &c
}
