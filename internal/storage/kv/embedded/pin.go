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

// pin retains the state of a prefix at a revision.
type pin struct {
	revision      kv.Revision
	prefix, owner string
}

// hasKey reports whether the prefix contains a key.
func (x *pin) hasKey(key string) bool { return strings.HasPrefix(key, x.prefix) }

func comparePins(x, y pin) int {
	return cmp.Or(cmp.Compare(x.revision, y.revision), cmp.Compare(x.prefix, y.prefix), cmp.Compare(x.owner, y.owner))
}

// pinSet is an immutable set of pins, sorted by comparePins.
type pinSet []pin

// from returns the pins whose revision is at least at.
func (p pinSet) from(at kv.Revision) pinSet {
	i, _ := slices.BinarySearchFunc(p, pin{revision: at}, comparePins)
	return p[i:]
}

// needs reports whether a pin contains the version of a key that was written at a revision and replaced at a later one.
func (p pinSet) needs(key string, written, replaced kv.Revision) bool {
	for _, x := range p.from(written) {
		if x.revision >= replaced {
			return false
		}
		if x.hasKey(key) {
			return true
		}
	}
	return false
}

// covers reports whether a pin at a revision contains all keys of a range. An empty end means no end.
func (p pinSet) covers(start, end string, at kv.Revision) bool {
	if end == "" {
		return false
	}
	for _, x := range p.from(at) {
		if x.revision > at {
			return false
		}
		if x.hasKey(start) && end <= kv.PrefixEnd(x.prefix) {
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
	pins, added := *s.pins.Load(), pin{at, prefix, owner}
	if compacted := kv.Revision(s.compacted.Load()); at < compacted && !pins.covers(prefix, kv.PrefixEnd(prefix), at) {
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
	remaining := slices.DeleteFunc(slices.Clone(pins), func(x pin) bool { return x.owner == owner })
	if len(remaining) == len(pins) {
		return nil
	}
	err := s.writePins(remaining, func(b *pebble.Batch) {
		for _, x := range pins {
			if x.owner == owner {
				_ = b.Delete(pinKey(x), nil)
			}
		}
	})
	if err != nil {
		return err
	}
	select {
	case s.unpinned <- struct{}{}:
	default: // it is pending
	}
	return nil
}

// writePins replaces the pins durably. s.history must be locked.
func (s *Store) writePins(pins pinSet, change func(*pebble.Batch)) error {
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

// PinOwners implements kv.Pinner.
func (s *Store) PinOwners(ctx context.Context) ([]string, error) {
	if err := s.checkOpen(ctx); err != nil {
		return nil, err
	}
	owners := []string{}
	for _, x := range *s.pins.Load() {
		owners = append(owners, x.owner)
	}
	slices.Sort(owners)
	return slices.Compact(owners), nil
}

func pinKey(x pin) []byte {
	key := binary.BigEndian.AppendUint64([]byte{prefixPin}, uint64(x.revision))
	key = append(key, x.prefix...)
	key = append(key, 0)
	return append(key, x.owner...)
}

func decodePin(raw []byte) (pin, error) {
	if len(raw) > 9 && raw[0] == prefixPin {
		if prefix, owner, ok := bytes.Cut(raw[9:], []byte{0}); ok {
			return pin{kv.Revision(binary.BigEndian.Uint64(raw[1:])), string(prefix), string(owner)}, nil
		}
	}
	return pin{}, fmt.Errorf("malformed pin %q: %w", raw, kv.ErrCorrupt)
}

// loadPins reads all pins. Their keys sort like comparePins.
func (e *engine) loadPins() (pinSet, error) {
	it, err := e.db.NewIter(&pebble.IterOptions{LowerBound: []byte{prefixPin}, UpperBound: []byte{prefixPin + 1}})
	if err != nil {
		return nil, e.wrapError("read pins", err)
	}
	defer it.Close()
	var pins pinSet
	for ok := it.First(); ok; ok = it.Next() {
		x, err := decodePin(it.Key())
		if err != nil {
			return nil, e.wrapError("read pins", err)
		}
		pins = append(pins, x)
	}
	slices.SortFunc(pins, comparePins)
	return pins, e.wrapError("read pins", it.Error())
}
