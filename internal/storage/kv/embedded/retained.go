package embedded

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"mainstay.dev/mainstay/internal/storage/kv"
	"mainstay.dev/mainstay/internal/storage/kv/versionkey"
)

// The index of retained versions contains the versions that only pins retain. trim adds a replaced version to
// the index instead of deleting it, if a pin needs it, and sweep deletes the versions that no pin needs any
// longer. The deletion of a key is retained as long as an older version of the key is retained, because the
// older version would otherwise appear to be the newest version.

// retained is an entry of the index of retained versions.
type retained struct {
	key     string
	written kv.Revision
	// replaced is the revision of the next version of the key; 0 if the retained version is a deletion.
	replaced kv.Revision
}

func retainedKey(key string, written kv.Revision) []byte {
	raw := versionkey.Append(nil, key, written)
	raw[0] = prefixRetained
	return raw
}

func retainedValue(replaced kv.Revision) []byte { return revisionValue(replaced) }

func decodeRetained(rawKey, rawValue []byte) (retained, error) {
	n := len(rawKey) - 9
	if n < 1 || rawKey[0] != prefixRetained || rawKey[n] != 0 || len(rawValue) != 8 {
		return retained{}, fmt.Errorf("malformed entry of a retained version %q: %w", rawKey, kv.ErrCorrupt)
	}
	return retained{
		key:      string(rawKey[1:n]),
		written:  kv.Revision(^binary.BigEndian.Uint64(rawKey[n+1:])),
		replaced: kv.Revision(binary.BigEndian.Uint64(rawValue)),
	}, nil
}

// hasRetained reports whether there are retained versions.
func (e *engine) hasRetained() (bool, error) {
	it, err := e.db.NewIter(&pebble.IterOptions{LowerBound: []byte{prefixRetained}, UpperBound: []byte{prefixRetained + 1}})
	if err != nil {
		return false, e.wrapError("read retained versions", err)
	}
	found := it.First()
	return found, e.wrapError("read retained versions", errors.Join(it.Error(), it.Close()))
}

// retainsOlder reports whether a version of a key before a revision is retained. b must be indexed, so that
// changes that are not applied yet are included.
func retainsOlder(b *pebble.Batch, key string, before kv.Revision) (bool, error) {
	it, err := b.NewIter(&pebble.IterOptions{LowerBound: retainedKey(key, before-1), UpperBound: retainedKey(key, 0)})
	if err != nil {
		return false, err
	}
	found := it.First()
	return found, errors.Join(it.Error(), it.Close())
}

// sweep deletes retained versions that neither a pin nor a running snapshot needs, in steps.
func (s *Store) sweep(ctx context.Context) error {
	for next := []byte{prefixRetained}; next != nil; {
		if err := errors.Join(ctx.Err(), s.ctx.Err()); err != nil {
			return err
		}
		var err error
		if next, err = s.sweepStep(next); err != nil {
			return fmt.Errorf("delete versions without a pin: %w", err)
		}
	}
	return nil
}

// sweepStep processes the index from a key and returns the key at which the next step starts; nil at the end. It
// writes one batch without fsync: a step that is lost in a crash is repeated after the next start.
func (s *Store) sweepStep(from []byte) (next []byte, err error) {
	s.history.Lock()
	defer s.history.Unlock()
	e, err := s.acquireForWrite()
	if err != nil {
		return nil, err
	}
	defer s.release()
	it, err := e.db.NewIter(&pebble.IterOptions{LowerBound: from, UpperBound: []byte{prefixRetained + 1}})
	if err != nil {
		return nil, e.wrapError("read retained versions", err)
	}
	defer it.Close()
	b := e.db.NewBatch()
	defer b.Close()
	pins := s.neededPins()
	var versions []retained // of one key, newest first
	for ok := it.First(); ok; ok = it.Next() {
		r, err := decodeRetained(it.Key(), it.Value())
		if err != nil {
			return nil, e.wrapError("read retained versions", err)
		}
		if len(versions) > 0 && versions[0].key != r.key {
			sweepKey(b, pins, versions)
			versions = versions[:0]
			if b.Len() >= trimBytes {
				next = append(next, it.Key()...)
				break
			}
		}
		versions = append(versions, r)
	}
	if err := it.Error(); err != nil {
		return nil, e.wrapError("read retained versions", err)
	}
	sweepKey(b, pins, versions)
	if b.Empty() {
		return next, nil
	}
	if err := e.db.Apply(b, pebble.NoSync); err != nil {
		return nil, e.wrapError("delete versions", err)
	}
	return next, nil
}

// sweepKey deletes the retained versions of one key, newest first, that no pin needs.
func sweepKey(b *pebble.Batch, pins PinSet, versions []retained) {
	older := false // an older version remains
	for i := len(versions) - 1; i >= 0; i-- {
		v := &versions[i]
		if v.replaced == 0 && older || v.replaced > 0 && pins.Needs(v.key, v.written, v.replaced) {
			older = true
			continue
		}
		_ = b.SingleDelete(versionkey.Append(nil, v.key, v.written), nil)
		_ = b.Delete(retainedKey(v.key, v.written), nil)
	}
}
