package archive

import (
	"bytes"
	"fmt"

	"github.com/klauspost/compress/s2"

	"mainstay.dev/mainstay/internal/storage/kv"
)

// A version is stored as a delta to the version before it, because most updates change a small part of an
// object. A chain has at most maxDepth deltas; the last delta of a chain is relative to a complete value.
const maxDepth = 8

// Limits of deltas.
const (
	// Minimum and maximum size, in bytes, of the value that a delta is relative to.
	minDeltaBase = 64
	maxDeltaBase = s2.MaxDictSize
	// maxValue is the maximum size of a decoded value, in bytes. It limits the memory that a corrupt delta
	// can use.
	maxValue = 64 << 20
	// encrypted is the prefix of encrypted values. The encrypted versions of a value have no parts in common.
	encrypted = "k8s:enc:"
	// maxChains is the maximum number of keys in chains.
	maxChains = 1 << 14
)

// dictRoom is the spare capacity, in bytes, that s2 needs after a value to use it as a dictionary without a
// copy.
const dictRoom = 16

// cloneValue returns a copy of a value for decodeDelta.
func cloneValue(value []byte) []byte {
	return append(make([]byte, 0, len(value)+dictRoom), value...)
}

// encodeDelta returns a value as a delta to base. It returns nil if the value should be stored completely,
// for example because the delta is larger than half of the value.
func encodeDelta(base, value []byte) []byte {
	if len(base) < minDeltaBase || len(base) > maxDeltaBase || bytes.HasPrefix(value, []byte(encrypted)) {
		return nil
	}
	delta := s2.MakeDict(base, nil).Encode(nil, value)
	if len(delta) > len(value)/2 {
		return nil
	}
	return delta
}

// decodeDelta is the inverse of encodeDelta. The error wraps kv.ErrCorrupt.
func decodeDelta(base, delta []byte) ([]byte, error) {
	size, err := s2.DecodedLen(delta)
	if err == nil && (size > maxValue || len(base) < minDeltaBase || len(base) > maxDeltaBase) {
		err = s2.ErrCorrupt
	}
	var value []byte
	if err == nil {
		value, err = s2.MakeDict(base, nil).Decode(make([]byte, 0, size+dictRoom), delta)
	}
	if err != nil {
		return nil, fmt.Errorf("malformed delta: %w: %w", kv.ErrCorrupt, err)
	}
	return value, nil
}

// chains contains the depth of the newest version of each key, which is the number of deltas up to a complete
// value. If the depth of a version is unknown, the next version is stored completely. It is not safe for
// concurrent use.
type chains map[string]chain

type chain struct {
	revision kv.Revision
	depth    int
}

// next reports whether the version after the version at revision previous may be a delta.
func (c chains) next(key string, previous kv.Revision) bool {
	last, ok := c[key]
	return ok && last.revision == previous && last.depth < maxDepth
}

// record records the newest version of a key.
func (c chains) record(key string, revision kv.Revision, delta bool) {
	last := c[key]
	if len(c) >= maxChains {
		clear(c) // keys that are still written are added again
	}
	if delta {
		c[key] = chain{revision, last.depth + 1}
		return
	}
	c[key] = chain{revision, 0}
}
