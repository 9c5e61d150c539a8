package backup

import (
	"context"
	"errors"
	"fmt"
	"time"

	"mainstay.dev/mainstay/internal/storage/kv"
	"mainstay.dev/mainstay/internal/storage/kv/embedded"
)

// follow uploads commits until an error occurs. After Close, it uploads the remaining commits and returns nil.
func (w *Writer) follow() error {
	watch, err := w.open()
	if err != nil {
		return err
	}
	f := &follower{Writer: w, watch: watch, segment: newSegmentBuilder(w.position, w.positionTime)}
	defer f.end()
	return f.run()
}

// open returns a watch that begins after the position. It resumes the generation of this process or of an
// earlier process, or begins a new generation.
func (w *Writer) open() (kv.Watch, error) {
	if w.generation == "" {
		watch, err := w.resume()
		if watch != nil || err != nil {
			return watch, err
		}
	}
	if w.generation != "" {
		watch, err := w.watch(w.position + 1)
		if !errors.Is(err, kv.ErrCompacted) {
			return watch, err
		}
		w.log.Warn("the store no longer has the changes since the last upload: they will be missing from the backup", "since", w.positionTime)
		w.generation = ""
	}
	return w.begin()
}

func (w *Writer) watch(from kv.Revision) (kv.Watch, error) {
	return w.config.Backend.Watch(w.ctx, "", "", from)
}

// resume continues the newest generation of the target if it belongs to this store. It returns a nil watch if
// there is no such generation.
func (w *Writer) resume() (kv.Watch, error) {
	catalog, err := ReadCatalog(w.ctx, w.config.Target)
	if err != nil {
		return nil, err
	}
	g := catalog.resumable()
	if g == nil {
		return nil, nil
	}
	last, at, t := g.end()
	newest, err := w.config.Backend.CurrentRevision(w.ctx)
	if err != nil || newest < at {
		return nil, err
	}
	object, err := w.config.Target.Get(w.ctx, last.Name)
	if err != nil {
		return nil, err
	}
	defer object.Close()
	want, err := readObject(object, nil, nil)
	if errors.Is(err, kv.ErrCorrupt) {
		w.log.Warn("the end of the backup is damaged: a new generation begins", "object", last.Name, "err", err)
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if got, err := w.markAt(w.ctx, at); err != nil || got != want || got == (mark{}) {
		return nil, err
	}
	w.generation = g.Name
	newestBase := &g.Bases[len(g.Bases)-1]
	w.baseRevision, w.nextBase = newestBase.Revision, newestBase.Time.Add(w.config.BaseInterval)
	w.moveTo(at, t)
	w.log.Info("the backup continues", "generation", g.Name, "revision", at)
	return w.watch(at + 1)
}

// end returns the last segment of a generation, with the last revision of the segment and its time. If there
// are no segments, it returns the first base, with its revision and its time.
func (g *Generation) end() (Object, kv.Revision, time.Time) {
	if n := len(g.Segments); n > 0 {
		s := &g.Segments[n-1]
		return s.Object, s.Last, s.LastTime
	}
	b := &g.Bases[0]
	return b.Object, b.Revision, b.Time
}

// resumable returns the newest generation, or nil if it is incomplete or there is no generation.
func (c *Catalog) resumable() *Generation {
	var newest *Generation
	var end time.Time
	for i := range c.Generations {
		if _, t := c.Generations[i].Newest(); !t.Before(end) {
			newest, end = &c.Generations[i], t
		}
	}
	if newest == nil || len(newest.gaps()) > 0 {
		return nil
	}
	return newest
}

// markAt returns the mark of the commit at a revision. It returns the zero mark if the backend has no such
// commit, or no longer has it.
func (w *Writer) markAt(ctx context.Context, at kv.Revision) (mark, error) {
	watch, err := w.config.Backend.Watch(ctx, "", "", at)
	if errors.Is(err, kv.ErrCompacted) {
		return mark{}, nil
	}
	if err != nil {
		return mark{}, err
	}
	defer watch.Stop()
	if err := w.config.Backend.RequestProgress(ctx); err != nil {
		return mark{}, err
	}
	batch, ok := <-watch.Batches()
	switch {
	case !ok && errors.Is(watch.Err(), kv.ErrCompacted):
		return mark{}, nil
	case !ok:
		return mark{}, errors.Join(errWatchEnded, watch.Err(), ctx.Err())
	case len(batch.Events) == 0 || batch.Events[0].Revision != at:
		return mark{}, nil
	}
	return markOf(&commit{revision: at, events: commitOf(batch.Events)}), nil
}

var errWatchEnded = errors.New("the watch of the store has ended")

// commitOf returns the first events that have the same revision.
func commitOf(events []kv.Event) []kv.Event {
	n := 1
	for n < len(events) && events[n].Revision == events[0].Revision {
		n++
	}
	return events[:n]
}

// begin begins a new generation with a base.
func (w *Writer) begin() (kv.Watch, error) {
	// putBase reads the mark of the base's commit last, so the store must hold this commit until then.
	_, release, err := w.config.Backend.Hold(w.ctx, 0)
	if err != nil {
		return nil, err
	}
	defer release()
	generation := newGeneration(time.Now())
	base, pins, err := w.putBase(w.ctx, generation)
	if err != nil {
		return nil, err
	}
	w.generation, w.baseRevision, w.basePins, w.nextBase = generation, base.Revision, pins, base.Time.Add(w.config.BaseInterval)
	w.moveTo(base.Revision, base.Time)
	w.log.Info("the backup begins", "generation", generation, "revision", base.Revision, "bytes", base.Size)
	w.tasks.Go(w.prune)
	return w.watch(w.position + 1)
}

// follower uploads the commits of one watch.
type follower struct {
	*Writer
	watch   kv.Watch
	segment *segmentBuilder
	// due receives when the segment must be uploaded; nil while the segment is empty.
	due <-chan time.Time
	// base receives the result of a periodic base; nil if no base is being uploaded.
	base       chan baseResult
	cancelBase context.CancelFunc
	// last is the revision at which the upload ends if stopped is set.
	stopped bool
	last    kv.Revision
	// seen is the newest revision that the watch has delivered.
	seen kv.Revision
	// pins are the pins of the newest segment.
	pins []kv.Pin
}

// end stops the watch. If a base is being uploaded, end cancels the upload and waits for its end.
func (f *follower) end() {
	f.watch.Stop()
	if f.base != nil {
		f.cancelBase()
		if result := <-f.base; result.err != nil {
			f.nextBase = time.Now().Add(f.baseDelay())
		}
	}
}

func (f *follower) run() error {
	newest, err := f.config.Backend.CurrentRevision(f.ctx)
	if err != nil {
		return err
	}
	if newest <= f.position { // otherwise, the upload of the later commits calls setPending
		f.setPending(time.Time{})
	}
	f.seen = f.position
	stopping := f.stopping
	for !f.stopped || f.seen < f.last {
		nextBase := time.NewTimer(time.Until(f.nextBase))
		select {
		case batch, ok := <-f.watch.Batches():
			if !ok {
				return errors.Join(errWatchEnded, f.watch.Err())
			}
			if err := f.add(batch); err != nil {
				return err
			}
		case <-f.due:
			if err := f.upload(); err != nil {
				return err
			}
		case <-nextBase.C:
			f.startBase()
		case result := <-f.base:
			f.baseEnded(result)
		case <-stopping:
			stopping = nil
			if err := f.startStop(); err != nil {
				return err
			}
		case <-f.ctx.Done():
			return f.ctx.Err()
		}
		nextBase.Stop()
	}
	return f.upload()
}

// startStop sets the revision at which Close ends the upload.
func (f *follower) startStop() (err error) {
	f.stopped = true
	if f.last, err = f.config.Backend.CurrentRevision(f.ctx); err != nil {
		return err
	}
	return f.config.Backend.RequestProgress(f.ctx)
}

// add adds commits to the segment.
func (f *follower) add(batch kv.Batch) error {
	for events := batch.Events; len(events) > 0; {
		next := commitOf(events)
		events = events[len(next):]
		first := f.segment.empty()
		if err := f.segment.add(next, f.config.Recipients); err != nil {
			return fmt.Errorf("encode a segment: %w", err)
		}
		if first {
			if f.isComplete() {
				f.holdFrom(f.position) // the last hold may have ended while there were no commits
			}
			f.setPending(f.segment.segment.FirstTime)
			f.due = time.After(f.config.Interval)
		}
		if f.segment.size < maxSegment {
			continue
		}
		if err := f.upload(); err != nil {
			return err
		}
	}
	f.seen = max(f.seen, batch.Revision)
	return nil
}

// upload uploads the segment, unless it is empty.
func (f *follower) upload() error {
	f.due = nil
	if f.segment.empty() {
		return nil
	}
	began := time.Now()
	var err error
	if f.pins, err = f.currentPins(); err != nil {
		return err
	}
	segment, err := f.segment.put(f.ctx, f.config.Target, f.generation, f.pins)
	if err != nil {
		return err
	}
	f.checkPins()
	f.metrics.uploaded(kindSegment, segment.Size, time.Since(began))
	f.moveTo(segment.Last, segment.LastTime)
	f.segment = newSegmentBuilder(segment.Last, segment.LastTime)
	f.setPending(time.Time{})
	return nil
}

// checkPins schedules a base if the backup lacks the state of a pin: the revision of the pin is lower than the
// revision of the newest base, and the base does not contain the pin.
func (f *follower) checkPins() {
	for _, p := range f.pins {
		if p.Revision < f.baseRevision && !f.basePins.Covers(p) {
			f.nextBase = time.Now()
			return
		}
	}
}

// baseResult is the result of uploading a base.
type baseResult struct {
	base Base
	pins embedded.PinSet
	err  error
}

// startBase starts the upload of a periodic base, unless a base is being uploaded or nothing has changed
// since the last base.
func (f *follower) startBase() {
	f.nextBase = time.Now().Add(f.config.BaseInterval)
	if f.base != nil || f.segment.empty() && f.position == f.baseRevision {
		return
	}
	ctx, cancel := context.WithCancel(f.ctx)
	f.base, f.cancelBase = make(chan baseResult, 1), cancel
	generation, result := f.generation, f.base
	f.tasks.Go(func() { // ends with ctx
		base, pins, err := f.putBase(ctx, generation)
		result <- baseResult{base, pins, err}
	})
}

// baseDelay returns the delay before another attempt after a base was not uploaded.
func (f *follower) baseDelay() time.Duration { return min(baseRetry, f.config.BaseInterval) }

// baseEnded records the result of a periodic base.
func (f *follower) baseEnded(result baseResult) {
	f.base = nil
	f.cancelBase()
	if result.err != nil {
		f.metrics.failed()
		delay := f.baseDelay()
		f.log.Warn("a base of the backup was not uploaded; retrying", "after", delay, "err", result.err)
		f.nextBase = time.Now().Add(delay)
		return
	}
	f.baseRevision, f.basePins = result.base.Revision, result.pins
	f.checkPins()
	f.tasks.Go(f.prune)
}
