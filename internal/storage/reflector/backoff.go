package reflector

import (
	"context"
	"math"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

const (
	minBackoff = 50 * time.Millisecond
	// MaxBackoff is the upper bound of the delays of a Reflector.
	MaxBackoff = 10 * time.Second
)

// Backoff returns exponential delays with jitter. The first delay is between 50 and 100 ms. Both bounds
// double with each delay, up to limit/2 and limit. The jitter spreads the retries of clients that failed
// together. To reset the delays, create a new backoff.
func Backoff(limit time.Duration) wait.Backoff {
	return wait.Backoff{Duration: minBackoff, Factor: 2, Jitter: 1, Steps: math.MaxInt32, Cap: limit / 2}
}

// Sleep blocks for the next delay of a backoff, or until ctx ends. It returns ctx.Err().
func Sleep(ctx context.Context, backoff *wait.Backoff) error {
	timer := time.NewTimer(backoff.Step())
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	return ctx.Err()
}
