package history

import (
	"context"
	"fmt"
	"sync"
	"time"

	"mainstay.dev/mainstay/internal/storage/kv"
)

// Holds is the set of revisions that readers in this process use. It prevents compaction beyond the oldest of
// them. All methods are safe for concurrent use.
type Holds struct {
	released chan struct{}
	mu       struct {
		sync.Mutex
		held map[*hold]struct{}
		// wanted is the newest revision to which compaction was requested. floor is the newest revision to
		// which compaction was permitted; older revisions cannot be held.
		wanted, floor kv.Revision
	}
}

type hold struct {
	revision kv.Revision
	since    time.Time
	// limit is the maximum duration; 0 means no limit.
	limit time.Duration
}

// NewHolds returns an empty set without a compacted revision; see Reset.
func NewHolds() *Holds {
	h := &Holds{released: make(chan struct{}, 1)}
	h.mu.held = make(map[*hold]struct{})
	return h
}

// Reset sets the compacted revision of a newly opened store. Older revisions cannot be held.
func (h *Holds) Reset(compacted kv.Revision) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.mu.floor = max(h.mu.floor, compacted)
}

// Add holds a revision until release is called, ctx ends, or limit has passed. A limit of 0 means
// no limit. The error wraps kv.ErrCompacted if compaction beyond the revision was already permitted.
func (h *Holds) Add(ctx context.Context, at kv.Revision, limit time.Duration) (release func(), err error) {
	x := &hold{revision: at, since: time.Now(), limit: limit}
	h.mu.Lock()
	defer h.mu.Unlock()
	if at < h.mu.floor {
		return nil, fmt.Errorf("hold revision %d, the oldest being %d: %w", at, h.mu.floor, kv.ErrCompacted)
	}
	h.mu.held[x] = struct{}{}
	// If ctx has already ended, remove runs in another goroutine as soon as Add has released the lock.
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

// Released returns a channel that receives a value after the release of a hold that delayed compaction. Grant
// may then permit compaction to a newer revision than before.
func (h *Holds) Released() <-chan struct{} { return h.released }

// Grant requests compaction to a revision and returns the revision to which compaction is permitted. This is
// the newest revision ever requested, but not later than the oldest held revision. Grant removes the holds
// whose limit has passed, and returns them in expired.
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

// Expired describes a hold that Grant removed because it exceeded its maximum duration.
type Expired struct {
	Revision kv.Revision
	Age      time.Duration
}

// Oldest returns the number of holds and the age of the oldest hold, which is 0 if there are no holds.
func (h *Holds) Oldest() (holds int, age time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for x := range h.mu.held {
		age = max(age, time.Since(x.since))
	}
	return len(h.mu.held), age
}
