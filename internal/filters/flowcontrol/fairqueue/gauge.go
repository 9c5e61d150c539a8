package fairqueue

import (
	"sync"
	"time"
)

// Gauge is a count that is measured over time, in parts of a denominator. It is safe for
// concurrent use.
type Gauge struct {
	mu    sync.Mutex
	now   time.Time
	count int
	meter Meter
}

// NewGauge returns a Gauge with upper bounds of buckets.
func NewGauge(bounds []float64) *Gauge { return &Gauge{now: time.Now(), meter: newMeter(bounds)} }

// Add changes the count. now is the time of the call.
func (g *Gauge) Add(now time.Time, n int) {
	g.lock(now)
	defer g.mu.Unlock()
	g.count += n
	g.meter.set(float64(g.count))
}

// SetDenominator sets the value that corresponds to a ratio of 1.
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
