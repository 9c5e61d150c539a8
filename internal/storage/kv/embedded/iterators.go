package embedded

import (
	"slices"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"mainstay.dev/mainstay/internal/storage/kv"
)

const (
	// iteratorAge is the maximum age of an iterator. It is short, because an iterator retains replaced files
	// and memory.
	iteratorAge = 50 * time.Millisecond
	// iteratorGap is the time between two requests for iterators below which iterators are retained.
	iteratorGap      = 2 * time.Millisecond
	maxIdleIterators = 8
)

// pooledIterator is an iterator that transactions reuse, because creating an iterator and opening
// each file of L0 is slower than finding a key. It only returns versions that existed at its
// creation. recent contains the newer versions.
type pooledIterator struct {
	it *pebble.Iterator
	// at is a revision up to which the iterator returns all versions.
	at    kv.Revision
	until time.Time
	// creates is set if the iterator uses the bloom filters of the last level.
	creates bool
	buf     []byte
}

// iteratorPool contains the unused iterators of an engine. They are retained while transactions follow each
// other closely, and are closed no later than twice iteratorAge after their creation.
type iteratorPool struct {
	mu     sync.Mutex
	idle   []*pooledIterator
	last   time.Time // time of the last request
	busy   bool      // the last two requests were at most iteratorGap apart
	timer  *time.Timer
	set    bool // the timer will call expire
	closed bool
}

// get returns an unused iterator with at >= floor, or nil. The caller must pass it to put.
func (x *iteratorPool) get(floor kv.Revision, creates bool) *pooledIterator {
	x.mu.Lock()
	defer x.mu.Unlock()
	now := time.Now()
	x.busy = now.Sub(x.last) < iteratorGap
	x.last = now
	for i, v := range slices.Backward(x.idle) {
		if v.at >= floor && v.creates == creates && now.Before(v.until) {
			x.idle = slices.Delete(x.idle, i, i+1)
			return v
		}
	}
	return nil
}

// put returns an iterator to the pool, which retains or closes it.
func (x *iteratorPool) put(v *pooledIterator) {
	if !x.retain(v) {
		_ = v.it.Close()
	}
}

func (x *iteratorPool) retain(v *pooledIterator) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	left := time.Until(v.until)
	if x.closed || !x.busy || left <= 0 || len(x.idle) >= maxIdleIterators {
		return false
	}
	x.idle = append(x.idle, v)
	x.wakeIn(left)
	return true
}

func (x *iteratorPool) wakeIn(d time.Duration) {
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

// expire closes old iterators.
func (x *iteratorPool) expire() {
	x.mu.Lock()
	defer x.mu.Unlock()
	now := time.Now()
	x.set = false
	x.idle = slices.DeleteFunc(x.idle, func(v *pooledIterator) bool {
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

// close closes all iterators, which must not be in use.
func (x *iteratorPool) close() {
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

// iterator returns an iterator with at >= floor. The caller must pass it to e.iterators.put or close it.
func (s *Store) iterator(e *engine, floor kv.Revision, creates bool) (*pooledIterator, error) {
	if v := e.iterators.get(floor, creates); v != nil {
		return v, nil
	}
	v := &pooledIterator{at: kv.Revision(s.published.Load()), until: time.Now().Add(iteratorAge), creates: creates} // published is loaded before the iterator is created, as in read
	var err error
	v.it, err = e.db.NewIter(&pebble.IterOptions{
		LowerBound: []byte{prefixVersion}, UpperBound: []byte{prefixVersion + 1},
		UseL6Filters: creates,
	})
	return v, e.wrapError("read", err)
}
