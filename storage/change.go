package storage

import (
	"context"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/watch"

	"mainstay.dev/mainstay/codec"
	"mainstay.dev/mainstay/rest"
	"mainstay.dev/mainstay/storage/kv"
)

// Change is one change of one object, shared by everyone who watches it. Its
// fields are not changed once it was handed to a watch.
type Change struct {
	Key      string
	Revision int64
	// Record is the object after the change, nil after a deletion.
	Record *codec.Record
	// Prev is the object before the change, nil before a creation.
	Prev *codec.Record

	// gone is Prev at Revision, made when somebody needs it.
	gone atomic.Pointer[codec.Record]
}

// NewChange returns the change that an event of the backend tells of. prev may
// be given where the record before the change is at hand.
func (s *Store) NewChange(ctx context.Context, ev *kv.Event, prev *codec.Record) (*Change, error) {
	c := &Change{Key: ev.Key, Revision: int64(ev.Revision), Prev: prev}
	var err error
	if c.Prev == nil && ev.Prev != nil {
		if c.Prev, err = s.Record(ctx, ev.Prev); err != nil {
			return nil, err
		}
	}
	sealed := s.writerRecord(ev)
	switch {
	case ev.Deleted:
		if sealed != nil {
			c.gone.Store(sealed)
		}
	case sealed != nil:
		c.Record = sealed
	default:
		c.Record, err = s.Record(ctx, &kv.Entry{Key: ev.Key, Value: ev.Value, Created: ev.Created, Modified: ev.Revision})
	}
	return c, err
}

// AtHand reports whether the change of an event can be made at once: without the
// transformer, which may ask a key service over the network.
func (s *Store) AtHand(ev *kv.Event) bool {
	if s.transformer == (Identity{}) {
		return true
	}
	note, ok := ev.Note.(*pendingRecord)
	return ok && note.kind == s.kind
}

// Gone returns the object before the change with the change's revision, as
// those see it for whom the change took it away. Prev must not be nil.
func (c *Change) Gone() *codec.Record {
	if r := c.gone.Load(); r != nil {
		return r
	}
	c.gone.CompareAndSwap(nil, c.Prev.At(c.Revision))
	return c.gone.Load()
}

// Event returns what a watch of the selection is told of the change. ok is
// false where it is told nothing.
func (sel *Selection) Event(c *Change) (ev rest.Event, ok bool, err error) {
	var before, after bool
	if c.Prev != nil {
		if before, err = c.Prev.Matches(sel.Labels, sel.Fields); err != nil {
			return ev, false, err
		}
	}
	if c.Record != nil {
		if after, err = c.Record.Matches(sel.Labels, sel.Fields); err != nil {
			return ev, false, err
		}
	}
	switch {
	case before && after:
		return rest.Event{Type: watch.Modified, Record: c.Record}, true, nil
	case after:
		return rest.Event{Type: watch.Added, Record: c.Record}, true, nil
	case before:
		return rest.Event{Type: watch.Deleted, Record: c.Gone()}, true, nil
	}
	return ev, false, nil
}

// Holds reports whether a key is in the selection's range.
func (sel *Selection) Holds(key string) bool {
	return key >= sel.Start && (sel.End == "" || key < sel.End)
}
