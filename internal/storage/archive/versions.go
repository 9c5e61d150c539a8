package archive

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"mainstay.dev/mainstay/internal/storage/kv"
	"mainstay.dev/mainstay/internal/storage/kv/versionkey"
)

// readVersion returns the complete version at an iterator, and may move the iterator to older versions of
// the key. The value does not alias the database.
func readVersion(it *pebble.Iterator, key string) (version, error) {
	v, err := versionAt(it, key)
	v.value, v.origin = bytes.Clone(v.value), bytes.Clone(v.origin)
	if err != nil || !v.delta {
		return v, err
	}
	deltas := [][]byte{v.value}
	for {
		if !it.Next() {
			return version{}, cmp.Or(it.Error(), errDeltaBase)
		}
		older, err := versionAt(it, key)
		if err != nil {
			return version{}, err
		}
		if !older.delta {
			v.value = cloneValue(older.value)
			break
		}
		if deltas = append(deltas, bytes.Clone(older.value)); len(deltas) > maxDepth {
			return version{}, errDeltaBase
		}
	}
	for _, delta := range slices.Backward(deltas) {
		if v.value, err = decodeDelta(v.value, delta); err != nil {
			return version{}, err
		}
	}
	v.delta = false
	return v, nil
}

var errDeltaBase = fmt.Errorf("the base of a delta is missing: %w", kv.ErrCorrupt)

// versionAt decodes the version at an iterator, which must be a version of the key. The result aliases the
// database.
func versionAt(it *pebble.Iterator, key string) (version, error) {
	of, rev, err := versionkey.Split(it.Key())
	if err != nil {
		return version{}, err
	}
	if string(of) != key {
		return version{}, errDeltaBase
	}
	raw, err := it.ValueAndErr()
	if err != nil {
		return version{}, err
	}
	return decodeVersion(key, rev, raw)
}

// eachKey calls visit for each archived key.
func (a *Archive) eachKey(db *database, visit func(key string) error) error {
	bounds := versionkey.Bounds(a.prefix, kv.PrefixEnd(a.prefix))
	it, err := db.NewIter(&bounds)
	if err != nil {
		return db.explain("read the history", err)
	}
	defer it.Close()
	for ok := it.First(); ok; ok = it.NextPrefix() {
		key, _, err := versionkey.Split(it.Key())
		if err != nil {
			return db.explain("read the history", err)
		}
		if err := visit(string(key)); err != nil {
			return err
		}
	}
	return db.explain("read the history", it.Error())
}

// versions calls visit for the complete versions of a key, the oldest first, until visit returns false.
// The versions do not alias the database.
func (a *Archive) versions(ctx context.Context, db *database, key string, visit func(*version) (more bool)) error {
	bounds := versionkey.Bounds(key, key+"\x00")
	it, err := db.NewIter(&bounds)
	if err != nil {
		return db.explain("read the history", err)
	}
	defer it.Close()
	var before *version
	for ok := it.Last(); ok; ok = it.Prev() {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		v, err := completeVersion(it, key, before)
		if err != nil {
			return db.explain("read the history", err)
		}
		if !visit(v) {
			return nil
		}
		before = v
	}
	return db.explain("read the history", it.Error())
}

// completeVersion returns the version at an iterator. before is the complete version before it, or nil.
func completeVersion(it *pebble.Iterator, key string, before *version) (*version, error) {
	v, err := versionAt(it, key)
	if err != nil {
		return nil, err
	}
	v.origin = bytes.Clone(v.origin)
	switch {
	case !v.delta:
		v.value = cloneValue(v.value)
		return &v, nil
	case before == nil || before.deleted:
		return nil, errDeltaBase
	}
	v.value, err = decodeDelta(before.value, v.value)
	v.delta = false
	return &v, err
}
