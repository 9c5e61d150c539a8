package overlay

import (
	"context"
	"sync"

	"mainstay.dev/mainstay/internal/storage/kv"
)

// Layer is a Base that reads a prefix of a store at a past revision. The prefix can have a base
// itself. The revision must remain readable while the Layer is used: see kv.Pinner. It is safe for
// concurrent use.
type Layer struct {
	store    *Backend // with the base of the prefix
	place    place
	revision kv.Revision

	mu sync.Mutex
	// counts contains the number of keys by range, for at most maxCounts ranges.
	counts map[keyRange]int64
}

// keyRange is a range of keys.
type keyRange struct{ start, end string }

// maxCounts is the maximum number of counts that a Layer caches. Counts of pages are less useful than counts
// of whole resources, which are requested first.
const maxCounts = 256

var _ Base = (*Layer)(nil)

// NewLayer returns a Base with the content of a prefix of a store at a revision. base is the base of the prefix, or nil.
func NewLayer(store kv.Backend, prefix string, revision kv.Revision, base Base) *Layer {
	if base == nil {
		base = NewEntries(0, nil)
	}
	l := &Layer{store: New(store), place: place{prefix, base}, revision: revision, counts: map[keyRange]int64{}}
	l.store.Attach(prefix, base)
	return l
}

// Revision implements Base.
func (l *Layer) Revision() kv.Revision { return l.revision }

// Get implements Base.
func (l *Layer) Get(ctx context.Context, key string) (*kv.Entry, error) {
	e, _, err := l.store.Get(ctx, l.place.prefix+key, l.revision)
	if e == nil || err != nil {
		return nil, err
	}
	return l.relative(e), nil
}

// relative returns an entry under its relative key.
func (l *Layer) relative(e *kv.Entry) *kv.Entry {
	moved := *e
	moved.Key = l.place.relative(e.Key)
	return &moved
}

// bounds returns the range of absolute keys.
func (l *Layer) bounds(start, end string) keyRange {
	if end == "" {
		return keyRange{l.place.prefix + start, kv.PrefixEnd(l.place.prefix)}
	}
	return keyRange{l.place.prefix + start, l.place.prefix + end}
}

// Scan implements Base.
func (l *Layer) Scan(start, end string, size int) Cursor {
	keys := l.bounds(start, end)
	return &layerCursor{l, l.store.merge(&l.place, keys.start, keys.end, l.revision, size)}
}

// layerCursor returns relative keys.
type layerCursor struct {
	layer *Layer
	*merged
}

// Next implements Cursor.
func (c *layerCursor) Next(ctx context.Context) (*kv.Entry, error) {
	e, err := c.merged.Next(ctx)
	if e == nil || err != nil {
		return nil, err
	}
	return c.layer.relative(e), nil
}

// Count implements Base.
func (l *Layer) Count(ctx context.Context, start, end string) (int64, error) {
	keys := l.bounds(start, end)
	l.mu.Lock()
	n, known := l.counts[keys]
	l.mu.Unlock()
	if known {
		return n, nil
	}
	result, err := l.store.Range(ctx, kv.RangeRequest{Start: keys.start, End: keys.end, At: l.revision, CountOnly: true})
	if err != nil {
		return 0, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.counts) < maxCounts {
		l.counts[keys] = result.Count
	}
	return result.Count, nil
}
