package fairqueue

import (
	"math"
	"time"
)

// Meter measures how long the ratio of a value to a denominator was in each bucket. The zero value
// measures nothing. A Meter is guarded by the lock of its Set or Gauge.
type Meter struct {
	bounds []float64 // upper bounds of the buckets, ascending; a last bucket is for larger ratios
	// nanoseconds contains the time per bucket. It has no elements after the last bucket that was used,
	// because most meters stay in the first bucket.
	nanoseconds        []uint64
	sum                float64 // sum of ratio times nanoseconds
	value, denominator float64
	bucket             int // bucket of the current ratio
}

func newMeter(bounds []float64) Meter { return Meter{bounds: bounds, denominator: 1} }

func (m *Meter) ratio() float64 { return m.value / m.denominator }

// advance records that the current value has been unchanged for d.
func (m *Meter) advance(d time.Duration) {
	if m.denominator == 0 {
		return
	}
	if unused := m.bucket + 1 - len(m.nanoseconds); unused > 0 {
		m.nanoseconds = append(m.nanoseconds, make([]uint64, unused)...)
	}
	m.nanoseconds[m.bucket] += uint64(d)
	m.sum += m.ratio() * float64(d)
}

func (m *Meter) set(value float64) {
	m.value = value
	ratio := m.ratio()
	m.bucket = 0
	for m.bucket < len(m.bounds) && ratio > m.bounds[m.bucket] {
		m.bucket++
	}
}

func (m *Meter) setDenominator(denominator int) {
	m.denominator = float64(max(denominator, 1))
	m.set(m.value)
}

// Measured is a histogram with one observation of the ratio per nanosecond. Buckets are cumulative,
// by upper bound.
type Measured struct {
	Count   uint64
	Sum     float64
	Buckets map[float64]uint64
}

func (m *Meter) measured() Measured {
	all := Measured{Sum: m.sum, Buckets: make(map[float64]uint64, len(m.bounds))}
	for i, bound := range m.bounds {
		if i < len(m.nanoseconds) {
			all.Count += m.nanoseconds[i]
		}
		all.Buckets[bound] = all.Count
	}
	for _, larger := range m.nanoseconds[min(len(m.bounds), len(m.nanoseconds)):] {
		all.Count += larger
	}
	return all
}

// Demand describes the number of requested seats in a period, whether they were available or not.
type Demand struct {
	Duration           time.Duration
	Average, Deviation float64 // time-weighted
	Max                float64
}

// demand integrates the demand of the current period.
type demand struct {
	value, max   float64
	elapsed      time.Duration
	sum, squares float64 // integrals of value and value² over seconds
}

func (d *demand) advance(by time.Duration) {
	d.elapsed += by
	d.sum += d.value * by.Seconds()
	d.squares += d.value * d.value * by.Seconds()
}

func (d *demand) set(value float64) {
	d.value = value
	d.max = max(d.max, value)
}

// take returns the demand and starts a new period.
func (d *demand) take() Demand {
	taken := Demand{Duration: d.elapsed, Max: d.max}
	if seconds := d.elapsed.Seconds(); seconds > 0 {
		taken.Average = d.sum / seconds
		taken.Deviation = math.Sqrt(max(0, d.squares/seconds-taken.Average*taken.Average))
	}
	*d = demand{value: d.value, max: d.value}
	return taken
}
