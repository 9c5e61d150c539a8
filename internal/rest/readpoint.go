package rest

import (
	"context"
	"sync"
)

// ReadPoint lets related consistent reads, such as the lookups of one admission pass, share one
// revision. The first read determines the newest revision of its store, which may require a quorum.
// Writes after that may be missing from all of the reads. The methods are safe for concurrent use.
// Reads with a nil *ReadPoint share nothing.
type ReadPoint struct {
	mu sync.Mutex
	// store is the store that was queried last, and revision is the result. store is nil before the
	// first query and after Reset.
	store    any
	revision int64
}

type readPointKey struct{}

// WithReadPoint returns a context with a new ReadPoint.
func WithReadPoint(ctx context.Context) context.Context {
	return context.WithValue(ctx, readPointKey{}, &ReadPoint{})
}

// WithoutReadPoint returns a context without a ReadPoint, for a write and its reads. It also resets
// the ReadPoint of ctx, so that later reads with ctx include the write.
func WithoutReadPoint(ctx context.Context) context.Context {
	point := ReadPointFrom(ctx)
	if point == nil {
		return ctx
	}
	point.Reset()
	return context.WithValue(ctx, readPointKey{}, (*ReadPoint)(nil))
}

// ReadPointFrom returns the ReadPoint of ctx, or nil.
func ReadPointFrom(ctx context.Context) *ReadPoint {
	point, _ := ctx.Value(readPointKey{}).(*ReadPoint)
	return point
}

// Revision returns the shared revision. The first call for a store calls newest and caches the result; later
// calls for the same store return the cached revision. store is the key of the store and must be comparable.
// A call for another store replaces the cached revision. Revision returns an error of newest unchanged and
// does not cache it. Concurrent calls wait for newest. A nil *ReadPoint calls newest each time.
func (p *ReadPoint) Revision(store any, newest func() (int64, error)) (int64, error) {
	if p == nil {
		return newest()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.store == store {
		return p.revision, nil
	}
	revision, err := newest()
	if err != nil {
		return 0, err
	}
	p.store, p.revision = store, revision
	return revision, nil
}

// Reset makes the next read query its store again. Call it after an event that later reads must
// include.
func (p *ReadPoint) Reset() {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.store = nil
}
