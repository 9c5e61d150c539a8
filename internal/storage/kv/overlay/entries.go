package overlay

import (
	"cmp"
	"context"
	"slices"

	"mainstay.dev/mainstay/internal/storage/kv"
)

// Entries is a Base in memory. It is immutable and safe for concurrent use.
type Entries struct {
	revision kv.Revision
	sorted   []kv.Entry
}

var _ Base = (*Entries)(nil)

// NewEntries returns a Base with the given entries, whose keys are relative to the prefix. It takes ownership
// of the slice, and sorts it.
func NewEntries(revision kv.Revision, entries []kv.Entry) *Entries {
	slices.SortFunc(entries, func(x, y kv.Entry) int { return cmp.Compare(x.Key, y.Key) })
	return &Entries{revision, entries}
}

// Revision implements Base.
func (e *Entries) Revision() kv.Revision { return e.revision }

// search returns the index of the first key that is not less than key.
func (e *Entries) search(key string) (index int, found bool) {
	return slices.BinarySearchFunc(e.sorted, key, func(entry kv.Entry, key string) int { return cmp.Compare(entry.Key, key) })
}

// between returns the entries of [start, end).
func (e *Entries) between(start, end string) []kv.Entry {
	first, _ := e.search(start)
	last := len(e.sorted)
	if end != "" {
		last, _ = e.search(end)
	}
	return e.sorted[first:max(first, last)]
}

// Get implements Base.
func (e *Entries) Get(_ context.Context, key string) (*kv.Entry, error) {
	i, found := e.search(key)
	if !found {
		return nil, nil
	}
	return &e.sorted[i], nil
}

// Scan implements Base.
func (e *Entries) Scan(start, end string, _ int) Cursor {
	return &entriesCursor{e.between(start, end)}
}

// entriesCursor is a cursor over the remaining entries of a scan.
type entriesCursor struct{ rest []kv.Entry }

// Next implements Cursor.
func (c *entriesCursor) Next(context.Context) (*kv.Entry, error) {
	if len(c.rest) == 0 {
		return nil, nil
	}
	next := c.rest[0]
	c.rest = c.rest[1:]
	return &next, nil
}

// Count implements Base.
func (e *Entries) Count(_ context.Context, start, end string) (int64, error) {
	return int64(len(e.between(start, end))), nil
}
