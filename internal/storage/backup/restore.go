package backup

import (
	"context"
	"errors"
	"iter"
	"slices"
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

// prefetch is the number of segments that are downloaded concurrently. Each segment has about maxSegment
// bytes or less.
const prefetch = 8

// Restore creates a store in dir with the state of a plan. dir must be empty or must not exist, and is
// empty after an error. The revision of the restored store is greater than all revisions in the backup. The
// error wraps ErrEncrypted if no identity can decrypt an object, and kv.ErrCorrupt if an object is damaged.
func (s *Source) Restore(ctx context.Context, p *Plan, dir string) (Restored, error) {
	r := &restorer{Source: s, plan: p, seen: map[string]kv.Revision{}, restored: Restored{Revision: p.Base.Revision, Time: p.Base.Time}}
	if err := embedded.Create(dir, max(p.newest, p.Base.Revision), r.records(ctx), func() []kv.Pin { return r.pins }); err != nil {
		return Restored{}, err
	}
	return r.restored, nil
}

// restorer reads the newest version of each key, and the older versions that pins retain. It reads the
// segments from the newest to the oldest, and then the base.
type restorer struct {
	*Source
	plan *Plan
	// seen contains the revision of the oldest version in the segments that have been read, by key.
	seen map[string]kv.Revision
	// oldest is the revision of the oldest commit that has been read; 0 before the first one.
	oldest   kv.Revision
	restored Restored
	found    bool // restored is set
	// pins are the pins of the newest segment, or of the base if there are no segments. They are set when
	// this segment or base is read.
	pins embedded.PinSet
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

// readAll calls do for each version to restore.
func (r *restorer) readAll(ctx context.Context, do func(embedded.Record) error) error {
	first := true
	for segment, err := range r.segments(ctx) {
		if err != nil {
			return err
		}
		if first {
			first, r.pins = false, embedded.NewPinSet(segment.pins)
		}
		if err := r.addCommits(segment.commits, do); err != nil {
			return err
		}
	}
	return r.readBase(ctx, &r.plan.Base, embedded.SnapshotReader{
		Retained: func(pins embedded.PinSet) error {
			if first {
				r.pins = pins
			}
			r.pins = r.completePins(pins)
			return nil
		},
		Record: func(record embedded.Record) error { return r.addRecord(record, do) },
	})
}

// addCommits calls do for each version of a segment that is the newest version of its key or that a pin
// needs.
func (r *restorer) addCommits(commits []*commit, do func(embedded.Record) error) error {
	for i := len(commits) - 1; i >= 0; i-- {
		c := commits[i]
		if !r.plan.includes(c) || r.oldest > 0 && c.revision >= r.oldest { // segments may overlap
			continue
		}
		r.oldest = c.revision
		if !r.found {
			r.found, r.restored = true, Restored{Revision: c.revision, Time: time.UnixMilli(c.time)}
		}
		for j := range c.events {
			record := recordOf(&c.events[j])
			record.Replaced = r.seen[record.Key]
			r.seen[record.Key] = c.revision
			if !r.needs(&record) {
				continue
			}
			if err := do(record); err != nil {
				return err
			}
		}
	}
	return nil
}

// addRecord calls do for a record of the base, unless it was replaced and no pin needs it.
func (r *restorer) addRecord(record embedded.Record, do func(embedded.Record) error) error {
	if record.Replaced == 0 {
		record.Replaced = r.seen[record.Key]
	}
	if !r.needs(&record) {
		return nil
	}
	return do(record)
}

// needs reports whether a version is the newest version of its key or is needed by a pin. A deletion is
// needed if a pin may need an older version of the key; the restored store removes superfluous deletions.
func (r *restorer) needs(record *embedded.Record) bool {
	switch {
	case record.Deleted:
		return r.pins.Contains(record.Key)
	case record.Replaced == 0:
		return true
	}
	return r.pins.Needs(record.Key, record.Modified, record.Replaced)
}

func recordOf(ev *kv.Event) embedded.Record {
	record := embedded.Record{Entry: kv.Entry{Key: ev.Key, Value: ev.Value, Created: ev.Created, Modified: ev.Revision}, Deleted: ev.Deleted}
	if ev.Expires > 0 {
		record.Expires = time.Unix(ev.Expires, 0)
	}
	return record
}

// completePins returns the pins that can be restored. The revision of such a pin is not greater than the
// restored revision. If it is less than the revision of the base, a pin of the base must cover the pin.
func (r *restorer) completePins(base embedded.PinSet) embedded.PinSet {
	return slices.DeleteFunc(slices.Clone(r.pins), func(p kv.Pin) bool {
		return p.Revision > r.restored.Revision || p.Revision < r.plan.Base.Revision && !base.Covers(p)
	})
}

// includes reports whether a commit is after the base, and not after the moment of the plan.
func (p *Plan) includes(c *commit) bool {
	return c.revision > p.Base.Revision && !p.moment.isBefore(c.revision, time.UnixMilli(c.time))
}

// segments returns the contents of the segments, from the newest segment to the oldest. It reads several
// segments concurrently.
func (r *restorer) segments(ctx context.Context) iter.Seq2[segmentContent, error] {
	return func(yield func(segmentContent, error) bool) {
		type result struct {
			segmentContent
			err error
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
					content, err := r.readSegment(ctx, &r.plan.Segments[i])
					to <- result{content, err}
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
			if !yield(got.segmentContent, got.err) || got.err != nil {
				return
			}
		}
		if err := parent.Err(); err != nil {
			yield(segmentContent{}, err) // the segments may be incomplete
		}
	}
}
