package history

import (
	"context"
	"fmt"
	"sync"
	"time"

	"mainstay.dev/mainstay/internal/storage/kv"
)

// Holds are the revisions that readers of this process still need, and the bound
// that compaction may go to because of them. All methods may be called
// concurrently.
type Holds struct {
	released chan struct{}
	mu       struct {
		sync.Mutex
		held map[*hold]struct{}
		// wanted is the newest revision that compaction was asked for, floor the
		// newest one that it was allowed to go to. No revision before floor is
		// held or will be.
		wanted, floor kv.Revision
	}
}

type hold struct {
	revision kv.Revision
	since    time.Time
	// limit is how long it lasts; 0 for as long as its context.
	limit time.Duration
}

// NewHolds returns an empty set.
func NewHolds() *Holds {
	h := &Holds{released: make(chan struct{}, 1)}
	h.mu.held = make(map[*hold]struct{})
	return h
}

// Reset has history begin at a revision, as is known when a store is opened.
func (h *Holds) Reset(compacted kv.Revision) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.mu.floor = max(h.mu.floor, compacted)
}

// Add holds a revision until release is called, ctx ends, or a limit has passed,
// if it is not 0. The error is kv.ErrCompacted where compaction may already have
// gone further.
func (h *Holds) Add(ctx context.Context, at kv.Revision, limit time.Duration) (release func(), err error) {
	x := &hold{revision: at, since: time.Now(), limit: limit}
	h.mu.Lock()
	defer h.mu.Unlock()
	if at < h.mu.floor {
		return nil, fmt.Errorf("hold revision %d, the oldest being %d: %w", at, h.mu.floor, kv.ErrCompacted)
	}
	h.mu.held[x] = struct{}{}
	// Under the lock: a context that has ended calls remove, which waits.
	stop := context.AfterFunc(ctx, func() { h.remove(x) })
	return func() { stop(); h.remove(x) }, nil
}

func (h *Holds) remove(x *hold) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, ok := h.mu.held[x]; !ok {
		return
	}
	delete(h.mu.held, x)
	if h.mu.wanted <= x.revision {
		return
	}
	select {
	case h.released <- struct{}{}:
	default:
	}
}

// Released receives when a hold has ended that kept compaction back: Grant may
// then allow more than it did.
func (h *Holds) Released() <-chan struct{} { return h.released }

// Grant asks for compaction to a revision and returns how far it may go now: to
// the newest revision ever asked for, but no further than the oldest that is
// held. expired are holds whose limit has passed; they no longer count.
func (h *Holds) Grant(to kv.Revision) (granted kv.Revision, expired []Expired) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.mu.wanted = max(h.mu.wanted, to)
	granted = h.mu.wanted
	for x := range h.mu.held {
		if age := time.Since(x.since); x.limit > 0 && age >= x.limit {
			expired = append(expired, Expired{x.revision, age})
			delete(h.mu.held, x)
			continue
		}
		granted = min(granted, x.revision)
	}
	h.mu.floor = max(h.mu.floor, granted)
	return h.mu.floor, expired
}

// Expired is a hold that ended because it had lasted too long.
type Expired struct {
	Revision kv.Revision
	Age      time.Duration
}

// Oldest returns how many holds there are, and the age of the one taken first.
func (h *Holds) Oldest() (holds int, age time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for x := range h.mu.held {
		age = max(age, time.Since(x.since))
	}
	return len(h.mu.held), age
}
