package backup

import (
	"context"
	"errors"
	"iter"
	"time"

	"golang.org/x/sync/errgroup"

	"mainstay.dev/mainstay/internal/storage/kv"
	"mainstay.dev/mainstay/internal/storage/kv/embedded"
)

// Restored describes a restored state.
type Restored struct {
	// Revision is the revision of the newest restored commit, and Time its time.
	Revision kv.Revision
	Time     time.Time
}

// prefetch is the number of segments that are downloaded at once. Each has about maxSegment bytes or less.
const prefetch = 8

// Restore creates a store in dir with the state of a plan. dir must be empty or must not exist, and is
// empty after an error. The revision of the restored store is greater than all revisions in the backup.
func (s *Source) Restore(ctx context.Context, p *Plan, dir string) (Restored, error) {
	r := &restorer{Source: s, plan: p, seen: map[string]struct{}{}, restored: Restored{Revision: p.Base.Revision, Time: p.Base.Time}}
	if err := embedded.Create(dir, max(p.newest, p.Base.Revision), r.records(ctx)); err != nil {
		return Restored{}, err
	}
	return r.restored, nil
}

// restorer reads the newest version of each key. It reads the segments from the newest to the oldest, and
// then the base, and ignores all but the first version of a key.
type restorer struct {
	*Source
	plan     *Plan
	seen     map[string]struct{}
	restored Restored
	found    bool // restored is set
}

func (r *restorer) records(ctx context.Context) iter.Seq2[embedded.Record, error] {
	return func(yield func(embedded.Record, error) bool) {
		err := r.readAll(ctx, func(record embedded.Record) error {
			if err := ctx.Err(); err != nil {
				return err
			}
			r.progress()
			if !yield(record, nil) {
				return errStop
			}
			return nil
		})
		if err != nil && !errors.Is(err, errStop) {
			yield(embedded.Record{}, err)
		}
	}
}

// readAll calls do for each key.
func (r *restorer) readAll(ctx context.Context, do func(embedded.Record) error) error {
	for commits, err := range r.segments(ctx) {
		if err != nil {
			return err
		}
		if err := r.addCommits(commits, do); err != nil {
			return err
		}
	}
	return r.readBase(ctx, &r.plan.Base, func(record embedded.Record) error {
		if _, ok := r.seen[record.Key]; ok {
			return nil
		}
		return do(record)
	})
}

// addCommits calls do for the keys of a segment that no later segment has.
func (r *restorer) addCommits(commits []*commit, do func(embedded.Record) error) error {
	for i := len(commits) - 1; i >= 0; i-- {
		c := commits[i]
		if !r.plan.includes(c) {
			continue
		}
		if !r.found {
			r.found, r.restored = true, Restored{Revision: c.revision, Time: time.UnixMilli(c.time)}
		}
		for j := range c.events {
			ev := &c.events[j]
			if _, ok := r.seen[ev.Key]; ok {
				continue
			}
			r.seen[ev.Key] = struct{}{}
			if ev.Deleted {
				continue
			}
			record := embedded.Record{Entry: kv.Entry{Key: ev.Key, Value: ev.Value, Created: ev.Created, Modified: c.revision}}
			if ev.Expires > 0 {
				record.Expires = time.Unix(ev.Expires, 0)
			}
			if err := do(record); err != nil {
				return err
			}
		}
	}
	return nil
}

// includes reports whether a commit is after the base, and not after the moment of the plan.
func (p *Plan) includes(c *commit) bool {
	return c.revision > p.Base.Revision && !p.moment.isBefore(c.revision, time.UnixMilli(c.time))
}

// segments returns the commits of the segments, from the newest segment to the oldest. It reads several
// segments at once.
func (r *restorer) segments(ctx context.Context) iter.Seq2[[]*commit, error] {
	return func(yield func([]*commit, error) bool) {
		type result struct {
			commits []*commit
			err     error
		}
		parent := ctx
		ctx, cancel := context.WithCancel(parent)
		tasks := errgroup.Group{}
		tasks.SetLimit(prefetch)
		ordered := make(chan chan result, prefetch)
		done := make(chan struct{})
		go func() { // ends with ctx
			defer close(done)
			defer close(ordered)
			for i := len(r.plan.Segments) - 1; i >= 0; i-- {
				to := make(chan result, 1)
				select {
				case ordered <- to:
				case <-ctx.Done():
					return
				}
				tasks.Go(func() error {
					commits, err := r.readSegment(ctx, &r.plan.Segments[i])
					to <- result{commits, err}
					return nil
				})
			}
		}()
		defer func() {
			cancel()
			<-done
			_ = tasks.Wait() // tasks return no errors
		}()
		for from := range ordered {
			got := <-from
			if !yield(got.commits, got.err) || got.err != nil {
				return
			}
		}
		if err := parent.Err(); err != nil {
			yield(nil, err) // the segments may be incomplete
		}
	}
}
