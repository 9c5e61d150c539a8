package embedded

import (
	"slices"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"mainstay.dev/mainstay/storage/kv"
)

const (
	// viewAge is how long a view is used: it keeps files and memory that have been replaced.
	viewAge = 50 * time.Millisecond
	// viewGap is how soon after another one a transaction must come for the view it is
	// evaluated with to be kept for the next.
	viewGap  = 2 * time.Millisecond
	maxViews = 8
)

// A view is an iterator over the versions of a moment. To make one, and to have it look for
// its place in each file of the newest level, takes longer than to find a key. So those with
// which transactions are evaluated are used again: recent has what is newer.
type view struct {
	it *pebble.Iterator
	// at is a revision that the view has all of, and of what came before it.
	at    kv.Revision
	until time.Time
	// creates says that it asks the filters of the last level.
	creates bool
	buf     []byte
}

// views are those of an engine that nobody uses at the moment. They are kept while
// transactions come one upon the other, and closed at most twice viewAge after they were
// made.
type views struct {
	mu     sync.Mutex
	idle   []*view
	last   time.Time // when one was last asked for
	busy   bool      // that was viewGap before, at most
	timer  *time.Timer
	set    bool // the timer will call expire
	closed bool
}

// take returns a view of floor or of later, which is the caller's until it is given back; nil
// where there is none.
func (x *views) take(floor kv.Revision, creates bool) *view {
	x.mu.Lock()
	defer x.mu.Unlock()
	now := time.Now()
	x.busy = now.Sub(x.last) < viewGap
	x.last = now
	for i, v := range slices.Backward(x.idle) {
		if v.at >= floor && v.creates == creates && now.Before(v.until) {
			x.idle = slices.Delete(x.idle, i, i+1)
			return v
		}
	}
	return nil
}

// give takes a view back, to keep or to close it.
func (x *views) give(v *view) {
	if !x.keep(v) {
		_ = v.it.Close()
	}
}

func (x *views) keep(v *view) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	left := time.Until(v.until)
	if x.closed || !x.busy || left <= 0 || len(x.idle) >= maxViews {
		return false
	}
	x.idle = append(x.idle, v)
	x.wakeIn(left)
	return true
}

func (x *views) wakeIn(d time.Duration) {
	if x.set {
		return
	}
	x.set = true
	if x.timer == nil {
		x.timer = time.AfterFunc(d, x.expire)
	} else {
		x.timer.Reset(d)
	}
}

// expire closes views that are too old.
func (x *views) expire() {
	x.mu.Lock()
	defer x.mu.Unlock()
	now := time.Now()
	x.set = false
	x.idle = slices.DeleteFunc(x.idle, func(v *view) bool {
		old := !now.Before(v.until)
		if old {
			_ = v.it.Close()
		}
		return old
	})
	if len(x.idle) > 0 {
		x.wakeIn(x.idle[0].until.Sub(now))
	}
}

// close closes all views. None may be in use.
func (x *views) close() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.closed = true
	for _, v := range x.idle {
		_ = v.it.Close()
	}
	x.idle = nil
	if x.timer != nil {
		x.timer.Stop()
	}
}

// view returns a view of floor or of later. It is given back to e.views, or closed.
func (s *Store) view(e *engine, floor kv.Revision, creates bool) (*view, error) {
	if v := e.views.take(floor, creates); v != nil {
		return v, nil
	}
	v := &view{at: kv.Revision(s.published.Load()), until: time.Now().Add(viewAge), creates: creates} // in this order: see read
	var err error
	v.it, err = e.db.NewIter(&pebble.IterOptions{
		LowerBound: []byte{prefixVersion}, UpperBound: []byte{prefixVersion + 1},
		UseL6Filters: creates,
	})
	return v, e.explain("read", err)
}
