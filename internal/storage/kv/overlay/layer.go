package overlay

import (
	"context"
	"sync"

	"mainstay.dev/mainstay/internal/storage/kv"
)

// Layer is a Base that reads a prefix of a store at a past revision. The prefix can itself have a base. The
// revision must remain readable while the Layer is in use; see kv.Pinner. It is safe for concurrent use.
type Layer struct {
	store      *Backend // with the base of the prefix
	attachment attachment
	revision   kv.Revision

	mu sync.Mutex
	// counts caches the number of keys of at most maxCounts ranges.
	counts map[keyRange]int64
}

// keyRange is the range [start, end) of absolute keys.
type keyRange struct{ start, end string }

// maxCounts is the maximum number of counts that a Layer caches. Counts of pages are less useful than counts
// of whole resources, which are requested first.
const maxCounts = 256

var _ Base = (*Layer)(nil)

// NewLayer returns a Base that contains the keys of store with a prefix, at a revision. base is the base of
// this prefix in store, or nil.
func NewLayer(store kv.Backend, prefix string, revision kv.Revision, base Base) *Layer {
	if base == nil {
		base = NewEntries(0, nil)
	}
	l := &Layer{store: New(store), attachment: attachment{prefix, base}, revision: revision, counts: map[keyRange]int64{}}
	l.store.Attach(prefix, base)
	return l
}

// Revision implements Base.
func (l *Layer) Revision() kv.Revision { return l.revision }

// Get implements Base.
func (l *Layer) Get(ctx context.Context, key string) (*kv.Entry, error) {
	e, _, err := l.store.Get(ctx, l.attachment.prefix+key, l.revision)
	if e == nil || err != nil {
		return nil, err
	}
	return l.relative(e), nil
}

// relative returns a copy of an entry whose key is relative to the prefix.
func (l *Layer) relative(e *kv.Entry) *kv.Entry {
	moved := *e
	moved.Key = l.attachment.relative(e.Key)
	return &moved
}

// bounds returns the range of absolute keys.
func (l *Layer) bounds(start, end string) keyRange {
	if end == "" {
		return keyRange{l.attachment.prefix + start, kv.PrefixEnd(l.attachment.prefix)}
	}
	return keyRange{l.attachment.prefix + start, l.attachment.prefix + end}
}

// Scan implements Base.
func (l *Layer) Scan(start, end string, size int) Cursor {
	keys := l.bounds(start, end)
	return &layerCursor{l, l.store.merge(&l.attachment, keys.start, keys.end, l.revision, size)}
}

// layerCursor returns entries with relative keys.
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
