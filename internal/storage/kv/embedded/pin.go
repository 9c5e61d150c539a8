package embedded

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2"

	"mainstay.dev/mainstay/internal/storage/kv"
)

func comparePins(x, y kv.Pin) int {
	return cmp.Or(cmp.Compare(x.Revision, y.Revision), cmp.Compare(x.Prefix, y.Prefix), cmp.Compare(x.Owner, y.Owner))
}

// PinSet is an immutable set of pins, in the order of their revisions, prefixes and owners.
type PinSet []kv.Pin

// NewPinSet returns the set of the given pins. It does not modify the slice.
func NewPinSet(pins []kv.Pin) PinSet { return slices.SortedFunc(slices.Values(pins), comparePins) }

// from returns the pins whose revision is at least at.
func (p PinSet) from(at kv.Revision) PinSet {
	i, _ := slices.BinarySearchFunc(p, kv.Pin{Revision: at}, comparePins)
	return p[i:]
}

// Needs reports whether a pin contains the version of a key that was written at a revision and replaced at a
// later revision.
func (p PinSet) Needs(key string, written, replaced kv.Revision) bool {
	for _, x := range p.from(written) {
		if x.Revision >= replaced {
			return false
		}
		if strings.HasPrefix(key, x.Prefix) {
			return true
		}
	}
	return false
}

// Contains reports whether a pin contains a key at any revision.
func (p PinSet) Contains(key string) bool {
	return slices.ContainsFunc(p, func(x kv.Pin) bool { return strings.HasPrefix(key, x.Prefix) })
}

// Covers reports whether a pin of the set has the revision of x and contains all keys of x.
func (p PinSet) Covers(x kv.Pin) bool { return p.covers(x.Prefix, kv.PrefixEnd(x.Prefix), x.Revision) }

// covers reports whether a pin at a revision contains all keys of a range. An empty end means no end.
func (p PinSet) covers(start, end string, at kv.Revision) bool {
	if end == "" {
		return false
	}
	for _, x := range p.from(at) {
		if x.Revision > at {
			return false
		}
		if strings.HasPrefix(start, x.Prefix) && end <= kv.PrefixEnd(x.Prefix) {
			return true
		}
	}
	return false
}

var _ kv.Pinner = (*Store)(nil)

// Pin implements kv.Pinner.
func (s *Store) Pin(ctx context.Context, owner, prefix string, at kv.Revision) error {
	if err := checkPin(prefix, owner); err != nil {
		return err
	}
	if err := s.checkOpen(ctx); err != nil {
		return err
	}
	s.history.Lock()
	defer s.history.Unlock()
	if err := checkFuture(at, kv.Revision(s.published.Load())); err != nil {
		return fmt.Errorf("pin: %w", err)
	}
	pins, added := *s.pins.Load(), kv.Pin{Revision: at, Prefix: prefix, Owner: owner}
	if compacted := kv.Revision(s.compacted.Load()); at < compacted && !pins.Covers(added) {
		return fmt.Errorf("pin revision %d, the oldest being %d: %w", at, compacted, kv.ErrCompacted)
	}
	i, exists := slices.BinarySearchFunc(pins, added, comparePins)
	if exists {
		return nil
	}
	return s.writePins(slices.Insert(slices.Clone(pins), i, added), func(b *pebble.Batch) {
		_ = b.Set(pinKey(added), nil, nil)
	})
}

// checkPin returns an error for an invalid prefix or owner.
func checkPin(prefix, owner string) error {
	if !strings.HasSuffix(prefix, "/") || owner == "" || strings.Contains(prefix+owner, "\x00") {
		return fmt.Errorf("pin: the prefix %q or the owner %q is invalid", prefix, owner)
	}
	return nil
}

// Unpin implements kv.Pinner.
func (s *Store) Unpin(ctx context.Context, owner string) error {
	if err := s.checkOpen(ctx); err != nil {
		return err
	}
	s.history.Lock()
	defer s.history.Unlock()
	pins := *s.pins.Load()
	remaining := slices.DeleteFunc(slices.Clone(pins), func(x kv.Pin) bool { return x.Owner == owner })
	if len(remaining) == len(pins) {
		return nil
	}
	err := s.writePins(remaining, func(b *pebble.Batch) {
		for _, x := range pins {
			if x.Owner == owner {
				_ = b.Delete(pinKey(x), nil)
			}
		}
	})
	if err != nil {
		return err
	}
	s.requestSweep()
	return nil
}

// requestSweep makes retainHistory call sweep.
func (s *Store) requestSweep() {
	select {
	case s.unpinned <- struct{}{}:
	default: // a sweep is already pending
	}
}

// writePins replaces the pins durably. change adds the changed keys to a batch. s.history must be locked.
func (s *Store) writePins(pins PinSet, change func(*pebble.Batch)) error {
	e, err := s.acquireForWrite()
	if err != nil {
		return err
	}
	defer s.release()
	b := e.db.NewBatch()
	change(b)
	if err := e.apply(b); err != nil {
		return fmt.Errorf("pin: %w", err)
	}
	s.pins.Store(&pins)
	return nil
}

// Pins implements kv.Pinner.
func (s *Store) Pins(ctx context.Context) ([]kv.Pin, error) {
	if err := s.checkOpen(ctx); err != nil {
		return nil, err
	}
	return slices.Clone(*s.pins.Load()), nil
}

func pinKey(x kv.Pin) []byte {
	key := binary.BigEndian.AppendUint64([]byte{prefixPin}, uint64(x.Revision))
	key = append(key, x.Prefix...)
	key = append(key, 0)
	return append(key, x.Owner...)
}

func decodePin(raw []byte) (kv.Pin, error) {
	if len(raw) > 9 && raw[0] == prefixPin {
		if prefix, owner, ok := bytes.Cut(raw[9:], []byte{0}); ok {
			return kv.Pin{Revision: kv.Revision(binary.BigEndian.Uint64(raw[1:])), Prefix: string(prefix), Owner: string(owner)}, nil
		}
	}
	return kv.Pin{}, fmt.Errorf("malformed pin %q: %w", raw, kv.ErrCorrupt)
}

// loadPins reads all pins.
func (e *engine) loadPins() (PinSet, error) {
	it, err := e.db.NewIter(&pebble.IterOptions{LowerBound: []byte{prefixPin}, UpperBound: []byte{prefixPin + 1}})
	if err != nil {
		return nil, e.wrapError("read pins", err)
	}
	defer it.Close()
	var pins []kv.Pin
	for ok := it.First(); ok; ok = it.Next() {
		x, err := decodePin(it.Key())
		if err != nil {
			return nil, e.wrapError("read pins", err)
		}
		pins = append(pins, x)
	}
	return NewPinSet(pins), e.wrapError("read pins", it.Error())
}
