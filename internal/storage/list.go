package storage

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/request"
	"mainstay.dev/mainstay/internal/rest"
	"mainstay.dev/mainstay/internal/storage/kv"
	"mainstay.dev/mainstay/internal/telemetry/tracing"
)

// Lists read the backend in chunks to limit memory use. The number of objects in later chunks depends on the
// size of the objects.
const (
	firstChunk = 100     // number of objects in the first chunk of a range
	minChunk   = 8       // minimum number of objects in a chunk
	maxChunk   = 2000    // maximum number of objects in a chunk
	chunkBytes = 4 << 20 // target size of later chunks, in bytes
)

// List implements Interface.
func (s *Store) List(ctx context.Context, namespace string, options rest.ListOptions) (*rest.List, error) {
	plan, err := s.PlanList(namespace, options)
	if err != nil {
		return nil, err
	}
	return s.ListPlanned(ctx, plan)
}

// ListPlanned implements WatchReader. The error is an *ExpiredError or *FutureRevisionError if the
// revision of the plan is not available.
func (s *Store) ListPlanned(ctx context.Context, plan *ListPlan) (list *rest.List, err error) {
	ctx, span := tracing.Start(ctx, "List from storage")
	defer func() { span.End(err) }()
	r := &reader{store: s, ctx: ctx, plan: plan}
	// Reading the first chunk determines the revision, and detects most errors.
	if err := r.first(); err != nil {
		return nil, err
	}
	records := s.collectCorrupt(r.records())
	if plan.Limit == 0 && !s.startsPlain(r) {
		// A full list is streamed to the client, so errors must be detected before the first byte. A
		// page is buffered anyway.
		if records, err = readAll(records); err != nil {
			return nil, err
		}
	}
	list = &rest.List{Revision: int64(r.at), Uncached: true}
	total := r.chunk.Count
	if plan.Namespaces != nil {
		total = -1 // unknown: the count is for the first range only
	}
	list.Items = s.Page(ctx, list, plan, records, func() int64 { return total }, func(evaluated, returned int64) {
		s.metrics.listed(s.resource, r.fetched, evaluated, returned)
	})
	return list, nil
}

// startsPlain reports whether the list can be assumed to contain no encrypted values, because new values of
// the resource are not encrypted and no value in the first chunk is.
func (s *Store) startsPlain(r *reader) bool {
	if !s.storesPlain() || r.plan.Namespaces != nil {
		return false // the first of several ranges may be empty
	}
	for i := range r.chunk.Entries {
		if _, _, err := s.transformer.FromStorage(r.ctx, r.chunk.Entries[i].Value, r.chunk.Entries[i].Key); err != nil {
			return false
		}
	}
	return true
}

// Page yields the items of one page of a list: the records that the selectors match, up to the limit.
// records are all records of the plan's ranges, in order. The iteration sets Continue and Remaining of
// list before it ends. total returns the number of records in the ranges, or a negative number if it is
// unknown. done is called at the end with the numbers of evaluated and returned records.
func (s *Store) Page(ctx context.Context, list *rest.List, p *ListPlan, records iter.Seq2[*codec.Record, error], total func() int64, done func(evaluated, returned int64)) iter.Seq2[*codec.Record, error] {
	return func(yield func(*codec.Record, error) bool) {
		var evaluated, returned int64
		var last *codec.Record
		defer func() { done(evaluated, returned) }()
		for record, err := range s.convertRecords(ctx, p, records) {
			if err != nil {
				yield(nil, err)
				return
			}
			if p.Limit > 0 && returned == p.Limit {
				list.Continue = encodeContinue(s.KeyOf(last.Name())+"\x00", p.Prefix, list.Revision)
				if n := total(); p.Unfiltered() && n >= 0 {
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
	// ranges are the ranges that have not been read completely. chunk was read from the first of them.
	ranges []keyRange
	chunk  kv.RangeResult
	// fetched is the number of objects that were read. It may be larger than the number of objects that the
	// selectors evaluate, because chunks are read in advance.
	fetched int64
}

type keyRange struct{ start, end string }

// first reads the first chunk, and sets the revision of the list.
func (r *reader) first() error {
	limit := firstChunk
	if r.plan.Limit > 0 && r.plan.Unfiltered() {
		// One additional object determines whether there is another page.
		limit = int(min(r.plan.Limit, maxChunk-1)) + 1
	}
	for start, end := range r.plan.Ranges {
		r.ranges = append(r.ranges, keyRange{start, end})
	}
	if len(r.ranges) == 0 {
		r.ranges = append(r.ranges, keyRange{r.plan.Start, r.plan.Start}) // an empty range, whose read returns the revision
	}
	if err := r.read(r.ranges[0].start, r.plan.At, limit, r.plan.Limit > 0 && r.plan.Unfiltered() && r.plan.Namespaces == nil); err != nil {
		return err
	}
	r.at = r.chunk.Revision
	if r.plan.Min > r.at {
		return &FutureRevisionError{Requested: int64(r.plan.Min), Current: int64(r.at)}
	}
	return nil
}

// read reads the chunk of the first range that begins at start. counted requests the number of objects from
// start to the end of the range.
func (r *reader) read(start string, at kv.Revision, limit int, counted bool) error {
	backend := r.store.backend
	end := request.MeasureLatency(r.ctx, request.StageStorage)
	res, err := backend.Range(r.ctx, kv.RangeRequest{Start: start, End: r.ranges[0].end, At: at, Limit: limit, WithCount: counted})
	end()
	switch {
	case err == nil:
		r.chunk = res
		r.fetched += int64(len(res.Entries))
		return nil
	case errors.Is(err, kv.ErrCompacted):
		return compactedError(err, r.plan.Expired())
	case errors.Is(err, kv.ErrFutureRevision):
		current, err := backend.CurrentRevision(r.ctx)
		if err != nil {
			return fmt.Errorf("list %s: %w", r.plan.Prefix, err)
		}
		return &FutureRevisionError{Requested: int64(at), Current: int64(current)}
	default:
		return fmt.Errorf("list %s: %w", r.plan.Prefix, err)
	}
}

// records yields the records of all ranges. It continues after an unreadable object.
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
