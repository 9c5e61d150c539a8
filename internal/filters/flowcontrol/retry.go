package flowcontrol

import "sync"

// maxRetryAfter is the maximum Retry-After, in seconds.
const maxRetryAfter = 32

// retryAfter computes the Retry-After for rejected requests of a level. It doubles the value when many
// requests are rejected again, and decreases it by one second when few requests are rejected. The zero value
// is ready to use. It is safe for concurrent use.
type retryAfter struct {
	mu      sync.Mutex
	seconds int64 // current Retry-After; 0 before the first rejection
	raised  int64 // Unix time of the last increase
	now     int64 // Unix time of the last rejection
	// rejected counts the rejections per second from now-maxRetryAfter to now. The index is the
	// second modulo the length.
	rejected [2 * maxRetryAfter]int64
}

// reject counts a rejection at a Unix time, and returns the Retry-After in seconds.
func (r *retryAfter) reject(unix int64) int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.seconds == 0 {
		r.seconds, r.now = 1, unix
	}
	if unix > r.now {
		r.advance(unix)
		r.adapt()
	}
	r.rejected[r.at(r.now)]++
	return r.seconds
}

func (r *retryAfter) at(second int64) int { return int(second % int64(len(r.rejected))) }

// advance clears the counts of the seconds since the last rejection.
func (r *retryAfter) advance(unix int64) {
	for second := max(r.now+1, unix-int64(len(r.rejected))+1); second <= unix; second++ {
		r.rejected[r.at(second)] = 0
	}
	r.now = unix
}

// adapt adjusts seconds by the number of rejections in the last Retry-After period.
func (r *retryAfter) adapt() {
	var recent int64
	for second := r.now - r.seconds; second < r.now; second++ {
		recent += r.rejected[r.at(second)]
	}
	switch {
	case r.now-r.raised >= r.seconds && recent >= 3*r.seconds:
		r.seconds = min(2*r.seconds, maxRetryAfter)
		r.raised = r.now
	case recent < r.seconds && r.seconds > 1:
		r.seconds--
	}
}
