package fairqueue

import (
	"sync"
	"time"
)

// Gauge measures the time-weighted ratio of a count to a denominator. Use NewGauge. It is safe for
// concurrent use.
type Gauge struct {
	mu    sync.Mutex
	now   time.Time
	count int
	meter Meter
}

// NewGauge returns a Gauge with a denominator of 1. bounds are the upper bounds of its buckets, in
// ascending order; the Gauge retains the slice.
func NewGauge(bounds []float64) *Gauge { return &Gauge{now: time.Now(), meter: newMeter(bounds)} }

// Add adds n, which may be negative, to the count. now is the current time.
func (g *Gauge) Add(now time.Time, n int) {
	g.lock(now)
	defer g.mu.Unlock()
	g.count += n
	g.meter.set(float64(g.count))
}

// SetDenominator sets the count that corresponds to a ratio of 1. Values below 1 are treated as 1.
func (g *Gauge) SetDenominator(denominator int) {
	g.lock(time.Now())
	defer g.mu.Unlock()
	g.meter.setDenominator(denominator)
}

// Measured returns the measurements so far.
func (g *Gauge) Measured() Measured {
	g.lock(time.Now())
	defer g.mu.Unlock()
	return g.meter.measured()
}

// lock acquires the lock and advances the clock to now, unless another caller has already advanced
// it further.
func (g *Gauge) lock(now time.Time) {
	g.mu.Lock()
	if by := now.Sub(g.now); by > 0 {
		g.meter.advance(by)
		g.now = now
	}
}
