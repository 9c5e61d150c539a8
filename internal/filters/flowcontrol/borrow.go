package flowcontrol

import (
	"math"
	"time"

	"mainstay.dev/mainstay/internal/filters/flowcontrol/fairqueue"
)

const (
	// adjustmentPeriod is how often levels lend to each other.
	adjustmentPeriod = 10 * time.Second
	// smoothing is the part of an old demand that is left after a period: half of it
	// after five minutes.
	smoothing = 0.977
)

// demandStats are the seats that a level wanted: in the last period, and smoothed.
type demandStats struct {
	average, deviation, highWatermark, smoothed, target float64
}

// update takes up the demand since the last time. A rise counts at once, a fall bit
// by bit.
func (s *demandStats) update(d fairqueue.Demand) {
	s.highWatermark = d.Max
	if d.Duration <= 0 {
		return
	}
	s.average, s.deviation = d.Average, d.Deviation
	envelope := d.Average + d.Deviation
	left := math.Pow(smoothing, max(1, float64(d.Duration)/float64(adjustmentPeriod)))
	s.smoothed = max(envelope, left*s.smoothed+(1-left)*envelope)
}

// tick has levels lend to each other where a period has passed.
func (c *Control) tick(now time.Time) {
	at := c.adjustAt.Load()
	since := int64(now.Sub(c.begun))
	if since < at || !c.adjustAt.CompareAndSwap(at, since+int64(adjustmentPeriod)) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.adjust()
}

// nextAdjustment is when tick must be called by who waits.
func (c *Control) nextAdjustment() time.Time {
	return c.begun.Add(time.Duration(c.adjustAt.Load()))
}

// adjust gives each level its current seats. An exempt level has what it uses; the others share
// what is left by what they want, within what they lend and may borrow. Where that is less than all keep
// for themselves, they get what they keep, and where it is less than what they use of their
// own, the same part of that. c.mu is held.
func (c *Control) adjust() {
	left, min, minNow := 0, 0, 0
	var shared []*level
	var wants []want
	for _, l := range c.made {
		l.demand.update(l.set.TakeDemand())
		left += l.nominal
		lower := l.lower()
		l.demand.target = float64(lower)
		if l.exempt {
			left -= lower
			l.current = lower
			continue
		}
		min, minNow = min+l.min, minNow+lower
		l.demand.target = max(float64(lower), l.demand.smoothed)
		shared = append(shared, l)
		wants = append(wants, want{float64(lower), float64(l.max), l.demand.target})
	}
	c.fairFrac = 0
	switch {
	case left <= min:
		for _, l := range shared {
			l.current = l.min
		}
	case left <= minNow:
		part := float64(left-min) / float64(minNow-min)
		for _, l := range shared {
			l.current = l.min + int(math.Round(float64(l.lower()-l.min)*part))
		}
	default:
		var given []float64
		given, c.fairFrac = allocate(float64(left), wants)
		for i, l := range shared {
			l.current = int(math.Round(given[i]))
		}
	}
	for _, l := range c.made {
		l.set.SetLimits(fairqueue.Limits{Seats: l.current, Denominator: l.denominator(c.config.Seats)})
	}
}

// lower returns the seats that a level does not lend now: those that it used, as far as they
// are its own, and those that it never lends.
func (l *level) lower() int {
	used := int(math.Ceil(l.demand.highWatermark))
	if !l.exempt {
		used = min(used, l.nominal)
	}
	return max(l.min, used)
}

// denominator is what the level's use is measured in parts of.
func (l *level) denominator(all int) int {
	if l.current > 0 {
		return l.current
	}
	return max(1, int(math.Round(float64(all)/10)))
}
