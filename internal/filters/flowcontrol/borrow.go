package flowcontrol

import (
	"math"
	"time"

	"mainstay.dev/mainstay/internal/filters/flowcontrol/fairqueue"
)

const (
	// adjustmentPeriod is the time between adjustments of the borrowed seats.
	adjustmentPeriod = 10 * time.Second
	// smoothing is the weight of the previous demand after one period. With this value, the weight
	// is halved every five minutes.
	smoothing = 0.977
)

// demandStats contains a level's demand for seats in the last period, and the smoothed demand.
type demandStats struct {
	average, deviation, highWatermark, smoothed, target float64
}

// update adds the demand of a period. The smoothed demand increases immediately and decreases
// gradually.
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

// adjustIfDue adjusts the borrowed seats if a period has passed since the last adjustment. It is
// called by requests, because a Control has no goroutines.
func (c *Control) adjustIfDue(now time.Time) {
	at := c.adjustAt.Load()
	since := int64(now.Sub(c.created))
	if since < at || !c.adjustAt.CompareAndSwap(at, since+int64(adjustmentPeriod)) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.adjust()
}

// nextAdjustment returns the time at which a waiting request must call adjustIfDue.
func (c *Control) nextAdjustment() time.Time {
	return c.created.Add(time.Duration(c.adjustAt.Load()))
}

// adjust sets the current seats of each level. An exempt level receives the seats that it uses. The other
// levels share the remaining seats by demand. Each of them receives at least lower() and at most max seats. If
// there are too few remaining seats for lower(), each level receives min seats, and the same fraction of the
// difference between min and lower(). If there are too few remaining seats for min, each level receives min
// seats nevertheless. The caller must hold c.mu.
func (c *Control) adjust() {
	left, min, minNow := 0, 0, 0
	var shared []*level
	var bounds []seatBounds
	for _, l := range c.activeLevels {
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
		bounds = append(bounds, seatBounds{float64(lower), float64(l.max), l.demand.target})
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
		var seats []float64
		seats, c.fairFrac = allocate(float64(left), bounds)
		for i, l := range shared {
			l.current = int(math.Round(seats[i]))
		}
	}
	for _, l := range c.activeLevels {
		l.set.SetLimits(fairqueue.Limits{Seats: l.current, Denominator: l.denominator(c.config.Seats)})
	}
}

// lower returns the number of seats that a level does not lend at present. These are its nominal
// seats in use, but at least the seats that it never lends.
func (l *level) lower() int {
	used := int(math.Ceil(l.demand.highWatermark))
	if !l.exempt {
		used = min(used, l.nominal)
	}
	return max(l.min, used)
}

// denominator returns the denominator of the level's utilization metrics.
func (l *level) denominator(all int) int {
	if l.current > 0 {
		return l.current
	}
	return max(1, int(math.Round(float64(all)/10)))
}
