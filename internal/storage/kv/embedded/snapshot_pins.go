package embedded

import (
	"encoding/binary"
	"hash/crc32"
	"slices"
	"sync"

	"github.com/cockroachdb/pebble/v2"

	"mainstay.dev/mainstay/internal/storage/kv"
	"mainstay.dev/mainstay/internal/storage/kv/versionkey"
)

// pinCopies contains the pins of the running snapshots.
type pinCopies struct {
	mu   sync.Mutex
	sets map[*PinSet]struct{}
}

// copyPins returns the pins of the store for a snapshot. The versions that these pins need are not deleted
// before release is called, even if the pins are removed, because the restored store has the pins and its
// forks would otherwise lack objects.
func (s *Store) copyPins() (pins PinSet, release func()) {
	s.copying.mu.Lock()
	defer s.copying.mu.Unlock()
	pins = *s.pins.Load()
	if len(pins) == 0 {
		return nil, func() {}
	}
	if s.copying.sets == nil {
		s.copying.sets = map[*PinSet]struct{}{}
	}
	copied := &pins
	s.copying.sets[copied] = struct{}{}
	return pins, func() {
		s.copying.mu.Lock()
		delete(s.copying.sets, copied)
		s.copying.mu.Unlock()
		s.requestSweep() // pins may have been removed
	}
}

// neededPins returns the pins of the store and of the running snapshots. The versions that these pins need
// must not be deleted. The caller holds the lock of history, so that no pin is added.
func (s *Store) neededPins() PinSet {
	s.copying.mu.Lock()
	defer s.copying.mu.Unlock()
	pins := *s.pins.Load()
	if len(s.copying.sets) == 0 {
		return pins
	}
	all := slices.Clone(pins)
	for copied := range s.copying.sets {
		all = append(all, *copied...)
	}
	return NewPinSet(all)
}

// pinnedChunk is like snapshotChunk, but also appends the older versions and the deletions that pins need.
func (s *Store) pinnedChunk(dst []byte, start string, at kv.Revision, pins PinSet) (chunk []byte, last string, err error) {
	e, err := s.acquireEngine()
	if err != nil {
		return nil, "", err
	}
	defer s.release()
	bounds := versionkey.Bounds(start, "")
	it, err := e.db.NewIter(&bounds)
	if err != nil {
		return nil, "", e.wrapError("read", err)
	}
	defer it.Close()
	newer, first := kv.Revision(0), true // newer is the revision of the next newer version of the key last
	for ok := it.First(); ok; ok = it.Next() {
		key, rev, err := versionkey.Split(it.Key())
		if err != nil {
			return nil, "", e.wrapError("read", err)
		}
		if first || string(key) != last {
			if !first && len(dst) >= snapshotChunk {
				return dst, last, nil
			}
			first, last, newer = false, string(key), 0
		}
		if rev > at {
			continue
		}
		raw, err := it.ValueAndErr()
		if err != nil {
			return nil, "", e.wrapError("read", err)
		}
		v, err := decodeVersion(last, rev, raw)
		if err != nil {
			return nil, "", e.wrapError("read", err)
		}
		switch {
		case v.entry == nil:
			// If no older version is retained, the restored store removes the deletion.
			if pins.Contains(last) {
				dst = appendDeletionRecord(dst, last, rev)
			}
		case newer == 0 || pins.Needs(last, rev, newer):
			dst = appendVersionRecord(dst, []byte{snapshotVersionKind}, v)
		}
		newer = rev
	}
	return dst, "", e.wrapError("read", it.Error())
}

func appendDeletionRecord(dst []byte, key string, rev kv.Revision) []byte {
	payload := binary.AppendUvarint([]byte{snapshotDeleted}, uint64(len(key)))
	payload = append(payload, key...)
	return appendRecord(dst, binary.AppendUvarint(payload, uint64(rev)))
}

// appendPins appends a record for each pin.
func appendPins(dst []byte, pins PinSet) []byte {
	for _, x := range pins {
		payload := binary.AppendUvarint([]byte{snapshotPin}, uint64(x.Revision))
		payload = binary.AppendUvarint(payload, uint64(len(x.Prefix)))
		payload = append(payload, x.Prefix...)
		dst = appendRecord(dst, append(payload, x.Owner...))
	}
	return dst
}

func decodePinRecord(f recordFields) (kv.Pin, bool) {
	revision, ok1 := f.revision()
	prefix, ok2 := f.text()
	owner := string(f.raw)
	return kv.Pin{Revision: revision, Prefix: prefix, Owner: owner}, ok1 && ok2 && checkPin(prefix, owner) == nil
}

func appendRecord(dst, payload []byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(payload)))
	dst = append(dst, payload...)
	return binary.BigEndian.AppendUint32(dst, crc32.Checksum(payload, castagnoli()))
}

// put adds the version to the batch of a restored store. Deletions, and all versions of a key except the
// newest one, are added to the index of retained versions; sweep deletes them if no pin needs them.
func (r *snapshotRecord) put(b *pebble.Batch) {
	switch {
	case r.entry == nil:
		_ = b.Set(versionkey.Append(nil, r.key, r.revision), deletedVersion(), nil)
		_ = b.Set(retainedKey(r.key, r.revision), retainedValue(0), nil)
	case r.older:
		putVersion(b, r.entry, r.expires)
		_ = b.Set(retainedKey(r.key, r.revision), retainedValue(r.replaced), nil)
	default:
		putVersion(b, r.entry, r.expires)
		if r.expires > 0 {
			_ = b.Set(expiryKey(r.expires, r.key), revisionValue(r.revision), nil)
		}
	}
}
