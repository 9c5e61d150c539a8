package storage

import (
	"context"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/watch"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/rest"
	"mainstay.dev/mainstay/internal/storage/kv"
)

// Change is one change of one object. All watches share it; its fields must not be modified. Its methods
// are safe for concurrent use.
type Change struct {
	Key      string
	Revision int64
	// Record is the object after the change; nil after a deletion.
	Record *codec.Record
	// Prev is the object before the change; nil before a creation.
	Prev *codec.Record

	// deleted is Prev with the revision of the change, created on first use.
	deleted atomic.Pointer[codec.Record]
}

// NewChange returns the Change for an event of the backend. prev is the record before the change, or nil to
// decode it from the event. It may block on a key service unless NonBlocking returns true. The error is a
// *CorruptError if a value cannot be decrypted, a *CorruptDeletionError if this value is the previous value
// of a deletion, or wraps the error of the transformer if ctx has ended.
func (s *Store) NewChange(ctx context.Context, ev *kv.Event, prev *codec.Record) (*Change, error) {
	c := &Change{Key: ev.Key, Revision: int64(ev.Revision), Prev: prev}
	var err error
	if c.Prev == nil && ev.Prev != nil {
		if c.Prev, err = s.Record(ctx, ev.Prev); err != nil {
			return nil, eventError(ev, err)
		}
	}
	shared := s.writerRecord(ev)
	switch {
	case ev.Deleted:
		if shared != nil {
			c.deleted.Store(shared)
		}
	case shared != nil:
		c.Record = shared
	default:
		c.Record, err = s.Record(ctx, &kv.Entry{Key: ev.Key, Value: ev.Value, Created: ev.Created, Modified: ev.Revision})
	}
	return c, err
}

// NonBlocking reports whether NewChange returns without calling the transformer, which may block on a
// key service. The caller must then pass prev if the event has a previous value.
func (s *Store) NonBlocking(ev *kv.Event) bool {
	if s.storesPlain() {
		return true
	}
	note, ok := ev.Note.(*uncommittedRecord)
	return ok && note.kind == s.kind
}

// DeletedRecord returns the object before the change with the revision of the change, for a DELETED
// event. Prev must not be nil.
func (c *Change) DeletedRecord() *codec.Record {
	if r := c.deleted.Load(); r != nil {
		return r
	}
	c.deleted.CompareAndSwap(nil, c.Prev.WithRevision(c.Revision))
	return c.deleted.Load()
}

// Event returns the event of a change for a watch of the selection. ok is false if the selection matches the
// object neither before nor after the change. Event returns an error if the object cannot be decoded to
// evaluate the selectors.
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
		return rest.Event{Type: watch.Deleted, Record: c.DeletedRecord()}, true, nil
	}
	return ev, false, nil
}

// Contains reports whether a key is in the selection's key range.
func (sel *Selection) Contains(key string) bool {
	return key >= sel.Start && (sel.End == "" || key < sel.End)
}
