package webhooks

import (
	"fmt"
	"sync"
	"time"
)

// breaker is a circuit breaker for one webhook. After failureThreshold consecutive failures, the circuit opens.
// While it is open, the breaker permits one call at a time. Each failure is followed by a pause that is
// proportional to the duration of the failed call: a webhook that refuses connections is called almost as often
// as before, and a webhook that never responds is called every few seconds. A successful call closes the
// circuit.
type breaker struct {
	mu       sync.Mutex
	failures int
	lastErr  error
	pauseEnd time.Time
	probing  bool // a call that began while the circuit was open has not ended
	// lastReport is the time of the last report that the circuit opened. failureReported is set from this
	// report until the recovery is reported.
	lastReport      time.Time
	failureReported bool
}

const (
	failureThreshold = 5
	// pauseFactor is the ratio of the length of a pause to the duration of the failed call.
	pauseFactor = 2
	maxPause    = 10 * time.Second
	// minReportInterval is the minimum time between two reports that the circuit of a webhook opened.
	minReportInterval = time.Minute
)

// openError is the error of a call that was skipped because the circuit is open.
type openError struct {
	failures int
	wait     time.Duration
	lastErr  error
}

func (e *openError) Error() string {
	when := "while another request calls it"
	if e.wait > 0 {
		when = "for " + max(e.wait.Round(time.Millisecond), time.Millisecond).String()
	}
	return fmt.Sprintf("it failed %d times in a row and is not called again %s; the last error: %v", e.failures, when, e.lastErr)
}
func (e *openError) Unwrap() error { return e.lastErr }

// beginCall returns an *openError if the webhook must not be called. Otherwise, the caller must pass probe to
// endCall or abandonCall. probe reports whether the call is a probe, that is, whether the circuit is open. Only
// the end of a probe permits the next probe, because calls that began before the circuit opened may end during
// a probe.
func (b *breaker) beginCall(now time.Time) (probe bool, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.failures < failureThreshold {
		return false, nil
	}
	if wait := b.pauseEnd.Sub(now); wait > 0 || b.probing {
		return false, &openError{b.failures, wait, b.lastErr}
	}
	b.probing = true
	return true, nil
}

// endCall records the result of a call. It reports whether the call opened or closed the circuit.
func (b *breaker) endCall(probe bool, err error, began, now time.Time) (open, closed bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.probing = b.probing && !probe
	if err == nil {
		closed = b.failures >= failureThreshold
		b.failures, b.lastErr = 0, nil
		return false, closed
	}
	b.failures++
	b.lastErr = err
	b.pauseEnd = now.Add(min(pauseFactor*now.Sub(began), maxPause))
	return b.failures == failureThreshold, false
}

// abandonCall records the end of a call that was canceled with its request. Such a call counts neither as a
// failure nor as a success.
func (b *breaker) abandonCall(probe bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.probing = b.probing && !probe
}

// state returns the number of consecutive failures and the last error.
func (b *breaker) state() (failures int, last error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.failures, b.lastErr
}

// shouldReport reports whether the opening or closing of the circuit must be reported. A recovery is reported
// only if the preceding failure was reported.
func (b *breaker) shouldReport(open bool, now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case !open:
		reported := b.failureReported
		b.failureReported = false
		return reported
	case now.Sub(b.lastReport) < minReportInterval:
		return false
	}
	b.lastReport, b.failureReported = now, true
	return true
}
