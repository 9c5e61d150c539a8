package overlay

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"mainstay.dev/mainstay/internal/storage/kv"
)

// Watch implements kv.Backend. A watch of an attached prefix cannot start at or before the revision of its
// base.
func (b *Backend) Watch(ctx context.Context, start, end string, from kv.Revision) (kv.Watch, error) {
	if p := b.findRange(start, end); p != nil && from > 0 && from <= p.base.Revision() {
		return nil, fmt.Errorf("watch %s from revision %d, the base being %d: %w", p.prefix, from, p.base.Revision(), kv.ErrCompacted)
	}
	ctx, cancel := context.WithCancel(ctx)
	stored, err := b.Backend.Watch(ctx, start, end, from)
	if err != nil {
		cancel()
		return nil, err
	}
	w := &watch{stored: stored, cancel: cancel, batches: make(chan kv.Batch)}
	go w.run(ctx, b) // ends with ctx or the watch of the backend
	return w, nil
}

// watch translates the events of a watch of stored keys.
type watch struct {
	stored  kv.Watch
	cancel  context.CancelFunc
	batches chan kv.Batch

	mu  sync.Mutex
	err error // error of reading a base
}

// run translates batches until the watch ends.
func (w *watch) run(ctx context.Context, b *Backend) {
	defer close(w.batches)
	defer func() { // the error of the stored watch is valid only after its end
		w.Stop()
		for range w.stored.Batches() {
		}
	}()
	for batch := range w.stored.Batches() {
		events, err := b.translateEvents(ctx, batch.Events)
		if err != nil {
			w.mu.Lock()
			if ctx.Err() == nil {
				w.err = err
			}
			w.mu.Unlock()
			return
		}
		batch.Events = events
		select {
		case w.batches <- batch:
		case <-ctx.Done():
			return
		}
	}
}

// translateEvents returns the events of the visible keys. It does not modify its argument.
func (b *Backend) translateEvents(ctx context.Context, stored []kv.Event) ([]kv.Event, error) {
	var changed []kv.Event
	for i := range stored {
		var p *attachment
		tombstone := IsTombstone(stored[i].Value) || isTombstone(stored[i].Prev)
		if stored[i].Prev == nil {
			p = b.find(stored[i].Key)
		}
		if p == nil && !tombstone {
			continue // the event is visible as stored
		}
		if changed == nil {
			changed = slices.Clone(stored)
		}
		if err := translateEvent(ctx, p, &changed[i]); err != nil {
			return nil, err
		}
	}
	if changed == nil {
		return stored, nil
	}
	return changed, nil
}

// translateEvent converts an event of the underlying backend, in place, to the event that a client of the
// overlay receives. A tombstone becomes a deletion, and the previous entry of a key may be in the base. If ev
// has no previous stored entry, p is the attached prefix of the key. p is nil if there is none: a prefix can
// be detached before its last events are received.
func translateEvent(ctx context.Context, p *attachment, ev *kv.Event) error {
	if isTombstone(ev.Prev) {
		ev.Prev, ev.Created = nil, ev.Revision
	} else if p != nil {
		below, err := p.get(ctx, ev.Key)
		if err != nil {
			return err
		}
		if ev.Prev = below; below != nil {
			ev.Created = below.Created
		}
	}
	if IsTombstone(ev.Value) {
		ev.Deleted, ev.Value, ev.Created = true, nil, 0
	}
	return nil
}

// Batches implements kv.Watch.
func (w *watch) Batches() <-chan kv.Batch { return w.batches }

// Err implements kv.Watch.
func (w *watch) Err() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return w.err
	}
	return w.stored.Err()
}

// Stop implements kv.Watch.
func (w *watch) Stop() {
	w.stored.Stop()
	w.cancel()
}
