package follow

import (
	"context"
	"math/rand/v2"
	"time"
)

const (
	firstPause   = 100 * time.Millisecond
	longestPause = 10 * time.Second
)

// Pauses are those between attempts at something that fails: each about twice as
// long as the one before, up to the Longest, and none quite as long as another's,
// so that those who failed together do not come back together. The zero value is
// ready: from a tenth of a second to ten.
type Pauses struct {
	// Longest is the longest pause; 0 means ten seconds.
	Longest time.Duration
	next    time.Duration
}

// Wait pauses, unless ctx ends first, which it returns the error of.
func (p *Pauses) Wait(ctx context.Context) error {
	longest := p.Longest
	if longest == 0 {
		longest = longestPause
	}
	pause := min(max(p.next, firstPause), longest)
	p.next = 2 * pause
	timer := time.NewTimer(pause/2 + rand.N(pause/2+1))
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Reset lets the next pause be a short one.
func (p *Pauses) Reset() { p.next = 0 }
