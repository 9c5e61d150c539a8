package rest

import (
	"context"
	"sync"
)

// ReadPoint is shared by consistent reads that belong together, such as the lookups of one
// pass of admission: the first one asks its store for the newest revision, which others may
// have to ask a quorum for, and what is written after that may be missing from all of them.
// Its methods may be called concurrently, and on nil, which shares nothing.
type ReadPoint struct {
	mu sync.Mutex
	// store is the one that was asked last, at revision; nil: none was.
	store    any
	revision int64
}

type readPointKey struct{}

// WithReadPoint returns a context whose consistent reads share a new ReadPoint.
func WithReadPoint(ctx context.Context) context.Context {
	return context.WithValue(ctx, readPointKey{}, &ReadPoint{})
}

// WithoutReadPoint returns a context whose consistent reads share none, for a write and
// what it reads. The point of ctx is forgotten: reads after the write see it.
func WithoutReadPoint(ctx context.Context) context.Context {
	point := ReadPointFrom(ctx)
	if point == nil {
		return ctx
	}
	point.Forget()
	return context.WithValue(ctx, readPointKey{}, (*ReadPoint)(nil))
}

// ReadPointFrom returns the point of ctx, nil where there is none.
func ReadPointFrom(ctx context.Context) *ReadPoint {
	point, _ := ctx.Value(readPointKey{}).(*ReadPoint)
	return point
}

// Revision returns the newest revision of a store, which is comparable, as of the first
// call for it, which asks it; one that is asked in between has both asked again.
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

// Forget has the next read ask anew: something happened that it must see.
func (p *ReadPoint) Forget() {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.store = nil
}
