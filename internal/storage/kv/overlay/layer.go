package overlay

import (
	"context"
	"sync"

	"mainstay.dev/mainstay/internal/storage/kv"
)

// Layer is a Base that reads a prefix of a store at a past revision. The prefix can have a base itself. The revision must
// remain readable while the Layer is used: see kv.Pinner.
type Layer struct {
	store    *Backend // with the base of the prefix
	prefix   string
	revision kv.Revision

	mu sync.Mutex
	// counts has the number of keys by range, up to maxCounts.
	counts map[keyRange]int64
}

// keyRange is a range of keys.
type keyRange struct{ start, end string }

// maxCounts is the maximum number of counts that a Layer caches. Counts of pages are less useful than those of whole
// resources, which are requested first.
const maxCounts = 256

var _ Base = (*Layer)(nil)

// NewLayer returns a Base with the content of a prefix of a store at a revision. base is the base of the prefix, or nil.
func NewLayer(store kv.Backend, prefix string, revision kv.Revision, base Base) *Layer {
	l := &Layer{store: New(store), prefix: prefix, revision: revision, counts: map[keyRange]int64{}}
	if base != nil {
		l.store.Attach(prefix, base)
	}
	return l
}

// Revision implements Base.
func (l *Layer) Revision() kv.Revision { return l.revision }

// Get implements Base.
func (l *Layer) Get(ctx context.Context, key string) (*kv.Entry, error) {
	e, _, err := l.store.Get(ctx, l.prefix+key, l.revision)
	if e == nil || err != nil {
		return nil, err
	}
	relative := *e
	relative.Key = key
	return &relative, nil
}

// request returns the request for a range of relative keys.
func (l *Layer) request(start, end string) kv.RangeRequest {
	req := kv.RangeRequest{Start: l.prefix + start, End: l.prefix + end, At: l.revision}
	if end == "" {
		req.End = kv.PrefixEnd(l.prefix)
	}
	return req
}

// Range implements Base.
func (l *Layer) Range(ctx context.Context, start, end string, limit int) ([]kv.Entry, bool, error) {
	req := l.request(start, end)
	req.Limit = limit
	result, err := l.store.Range(ctx, req)
	for i := range result.Entries {
		e := &result.Entries[i]
		e.Key = e.Key[len(l.prefix):]
	}
	return result.Entries, result.More, err
}

// Count implements Base.
func (l *Layer) Count(ctx context.Context, start, end string) (int64, error) {
	of := keyRange{start, end}
	l.mu.Lock()
	n, known := l.counts[of]
	l.mu.Unlock()
	if known {
		return n, nil
	}
	req := l.request(start, end)
	req.CountOnly = true
	result, err := l.store.Range(ctx, req)
	if err != nil {
		return 0, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.counts) < maxCounts {
		l.counts[of] = result.Count
	}
	return result.Count, nil
}
