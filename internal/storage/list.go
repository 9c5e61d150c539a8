package storage

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/rest"
	"mainstay.dev/mainstay/internal/storage/kv"
)

// A list reads the backend in chunks of about chunkBytes, so that its memory
// does not grow with its length, nor with that of its objects.
const (
	firstChunk = 100
	minChunk   = 8
	maxChunk   = 2000
	chunkBytes = 4 << 20
)

// List implements Interface.
func (s *Store) List(ctx context.Context, namespace string, options rest.ListOptions) (*rest.List, error) {
	plan, err := s.PlanList(namespace, options)
	if err != nil {
		return nil, err
	}
	return s.ListPlanned(ctx, plan)
}

// ListPlanned is List of a resolved request.
func (s *Store) ListPlanned(ctx context.Context, plan *ListPlan) (*rest.List, error) {
	r := &reader{store: s, ctx: ctx, plan: plan}
	// The first chunk determines the revision, and most errors.
	if err := r.first(); err != nil {
		return nil, err
	}
	records := s.named(r.records())
	if plan.Limit == 0 && !s.plainFirst(r) {
		// A list is streamed, so errors must be detected before the first byte. A page is buffered
		// anyway.
		var err error
		if records, err = gathered(records); err != nil {
			return nil, err
		}
	}
	list := &rest.List{Revision: int64(r.at), Uncached: true}
	total := r.chunk.Count
	if plan.Namespaces != nil {
		total = -1 // the total of the first range only
	}
	list.Items = s.Page(ctx, list, plan, records, func() int64 { return total }, func(evaluated, returned int64) {
		s.metrics.listed(s.resource, evaluated, returned)
	})
	return list, nil
}

// plainFirst reports whether the values of a list may be taken to be plain text: that
// the resource is not encrypted, and its first values were not when they were written.
func (s *Store) plainFirst(r *reader) bool {
	if !s.storesPlain() || r.plan.Namespaces != nil {
		return false // of several ranges, the first may be empty
	}
	for i := range r.chunk.Entries {
		if _, _, err := s.transformer.FromStorage(r.ctx, r.chunk.Entries[i].Value, r.chunk.Entries[i].Key); err != nil {
			return false
		}
	}
	return true
}

// Page returns the items of one page of a list: the records that the selectors match, up to the
// limit. records are all records of the plan's range, in order. After the iteration, the list's
// Continue and Remaining are set. total returns the number of records in the range, or a negative
// number if unknown; done is called at the end with the numbers of evaluated and returned records.
func (s *Store) Page(ctx context.Context, list *rest.List, p *ListPlan, records iter.Seq2[*codec.Record, error], total func() int64, done func(evaluated, returned int64)) iter.Seq2[*codec.Record, error] {
	return func(yield func(*codec.Record, error) bool) {
		var evaluated, returned int64
		var last *codec.Record
		defer func() { done(evaluated, returned) }()
		for record, err := range s.converted(ctx, p, records) {
			if err != nil {
				yield(nil, err)
				return
			}
			if p.Limit > 0 && returned == p.Limit {
				list.Continue = encodeContinue(s.KeyOf(last.Name())+"\x00", p.Prefix, list.Revision)
				if n := total(); p.All() && n >= 0 {
					remaining := n - returned
					list.Remaining = &remaining
				}
				return
			}
			evaluated++
			ok, err := record.Matches(p.Labels, p.Fields)
			if err != nil {
				yield(nil, err)
				return
			}
			if !ok {
				continue
			}
			returned++
			last = record
			if !yield(record, nil) {
				return
			}
		}
	}
}

// reader reads the ranges of a plan in chunks.
type reader struct {
	store *Store
	ctx   context.Context
	plan  *ListPlan
	at    kv.Revision
	// ranges are the incompletely read ranges; chunk belongs to the first one.
	ranges []keyRange
	chunk  kv.RangeResult
}

type keyRange struct{ start, end string }

// first reads the first chunk.
func (r *reader) first() error {
	limit := firstChunk
	if r.plan.Limit > 0 && r.plan.All() {
		// One more than the page, to know whether another one follows.
		limit = int(min(r.plan.Limit+1, maxChunk))
	}
	for start, end := range r.plan.Ranges {
		r.ranges = append(r.ranges, keyRange{start, end})
	}
	if len(r.ranges) == 0 {
		r.ranges = append(r.ranges, keyRange{r.plan.Start, r.plan.Start}) // for the revision
	}
	if err := r.read(r.ranges[0].start, r.plan.At, limit, r.plan.Limit > 0 && r.plan.All() && r.plan.Namespaces == nil); err != nil {
		return err
	}
	r.at = r.chunk.Revision
	if r.plan.Min > r.at {
		return &FutureRevisionError{Asked: int64(r.plan.Min), Current: int64(r.at)}
	}
	return nil
}

// read reads the chunk of the first range that begins at start, and counts the range
// from there on if counted.
func (r *reader) read(start string, at kv.Revision, limit int, counted bool) error {
	backend := r.store.backend
	res, err := backend.Range(r.ctx, kv.RangeRequest{Start: start, End: r.ranges[0].end, At: at, Limit: limit, Counted: counted})
	switch {
	case err == nil:
		r.chunk = res
		return nil
	case errors.Is(err, kv.ErrCompacted):
		return r.plan.Expired()
	case errors.Is(err, kv.ErrFutureRevision):
		current, err := backend.CurrentRevision(r.ctx)
		if err != nil {
			return fmt.Errorf("list %s: %w", r.plan.Prefix, err)
		}
		return &FutureRevisionError{Asked: int64(at), Current: int64(current)}
	default:
		return fmt.Errorf("list %s: %w", r.plan.Prefix, err)
	}
}

// records yields the records of the range. It continues after the error of an object.
func (r *reader) records() iter.Seq2[*codec.Record, error] {
	return func(yield func(*codec.Record, error) bool) {
		for {
			size, last := 0, ""
			for i := range r.chunk.Entries {
				entry := &r.chunk.Entries[i]
				size += len(entry.Value)
				last = entry.Key
				if !yield(r.store.Record(r.ctx, entry)) {
					return
				}
			}
			start, limit := last+"\x00", firstChunk
			n := len(r.chunk.Entries)
			switch {
			case r.chunk.More && n > 0:
				limit = min(max(chunkBytes/max(size/n, 1), minChunk), maxChunk)
			case len(r.ranges) > 1:
				r.ranges = r.ranges[1:]
				start = r.ranges[0].start
			default:
				return
			}
			if err := r.read(start, r.at, limit, false); err != nil {
				yield(nil, err)
				return
			}
		}
	}
}
