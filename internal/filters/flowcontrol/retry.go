package flowcontrol

import "sync"

// maxRetryAfter is the maximum Retry-After, in seconds.
const maxRetryAfter = 32

// retryAfter computes the Retry-After for rejected requests of a level: it doubles when many
// requests are rejected again, and decreases by one second when few are. The zero value is ready to
// use.
type retryAfter struct {
	mu      sync.Mutex
	seconds int64 // of the answer; 0: not worked out yet
	raised  int64 // when it was doubled last, as a Unix time
	now     int64 // the Unix second of the last refusal
	// refused counts the rejections per second from now-maxRetryAfter to now. The index is the
	// second modulo the length.
	refused [2 * maxRetryAfter]int64
}

// refuse counts a refusal at a Unix time, and returns the seconds to wait.
func (r *retryAfter) refuse(unix int64) int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.seconds == 0 {
		r.seconds, r.now = 1, unix
	}
	if unix > r.now {
		r.advance(unix)
		r.adapt()
	}
	r.refused[r.at(r.now)]++
	return r.seconds
}

func (r *retryAfter) at(second int64) int { return int(second % int64(len(r.refused))) }

// advance clears the seconds that have passed without a refusal.
func (r *retryAfter) advance(unix int64) {
	for second := max(r.now+1, unix-int64(len(r.refused))+1); second <= unix; second++ {
		r.refused[r.at(second)] = 0
	}
	r.now = unix
}

// adapt evaluates the rejections of the last Retry-After seconds.
func (r *retryAfter) adapt() {
	var recent int64
	for second := r.now - r.seconds; second < r.now; second++ {
		recent += r.refused[r.at(second)]
	}
	switch {
	case r.now-r.raised >= r.seconds && recent >= 3*r.seconds:
		r.seconds = min(2*r.seconds, maxRetryAfter)
		r.raised = r.now
	case recent < r.seconds && r.seconds > 1:
		r.seconds--
	}
}
