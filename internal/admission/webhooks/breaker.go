package webhooks

import (
	"fmt"
	"sync"
	"time"
)

// A breaker protects requests from a failing webhook: after a number of consecutive failures, one
// request at a time calls it, with pauses that grow with the duration of the calls. A webhook that
// refuses connections is called almost as often as before; one that never responds is paused for
// some seconds. The first response ends it.
type breaker struct {
	mu       sync.Mutex
	failures int
	last     error
	until    time.Time // of the pause
	asked    bool      // by one request that is in progress
	// reported is the time of the last report that the webhook is spared; told means that its
	// recovery was not reported.
	reported time.Time
	told     bool
}

const (
	breakerFailures = 5
	breakerFactor   = 2 // a pause is so many times as long as the call that failed
	breakerPause    = 10 * time.Second
	// reportPause is the minimum time between reports for an unstable webhook.
	reportPause = time.Minute
)

// openError is why a webhook is not called while its circuit breaker is open.
type openError struct {
	failures int
	wait     time.Duration
	last     error
}

func (e *openError) Error() string {
	when := "while another request asks it"
	if e.wait > 0 {
		when = "for " + max(e.wait.Round(time.Millisecond), time.Millisecond).String()
	}
	return fmt.Sprintf("it failed %d times in a row and is not called again %s; the last error: %v", e.failures, when, e.last)
}
func (e *openError) Unwrap() error { return e.last }

// begin returns nil if the webhook must be called; end must follow.
func (b *breaker) begin(now time.Time) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.failures < breakerFailures {
		return nil
	}
	if wait := b.until.Sub(now); wait > 0 || b.asked {
		return &openError{b.failures, wait, b.last}
	}
	b.asked = true
	return nil
}

// end records the result of a call. It reports whether the breaker opened or closed.
func (b *breaker) end(err error, began, now time.Time) (open, closed bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.asked = false
	if err == nil {
		closed = b.failures >= breakerFailures
		b.failures, b.last = 0, nil
		return false, closed
	}
	b.failures++
	b.last = err
	b.until = now.Add(min(breakerFactor*now.Sub(began), breakerPause))
	return b.failures == breakerFailures, false
}

// abandon records that a call ended for reasons that are not the webhook's.
func (b *breaker) abandon() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.asked = false
}

// state returns how many calls failed in a row, and why the last one did.
func (b *breaker) state() (failures int, last error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.failures, b.last
}

// reports reports whether the change must be logged. A recovery is logged if the failure was.
func (b *breaker) reports(spared bool, now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case !spared:
		told := b.told
		b.told = false
		return told
	case now.Sub(b.reported) < reportPause:
		return false
	}
	b.reported, b.told = now, true
	return true
}
