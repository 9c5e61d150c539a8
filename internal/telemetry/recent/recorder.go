// Package recent records the values of a server's metrics during the last hour, so that a web console can show
// charts without an external time-series database. It records only sums over the series of a metric, such as
// requests by verb, so its memory use does not depend on the number of resources.
package recent

import (
	"context"
	"math"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

const (
	// Period is the interval between two samples.
	Period = 15 * time.Second
	// Samples is the maximum number of recorded samples. A new sample replaces the oldest one.
	Samples = 240
	// MaxSeries is the maximum number of series. Series beyond the limit are not recorded. A series
	// takes about 1 KB.
	MaxSeries = 128
)

// Recorder records samples of metrics. All methods are safe for concurrent use.
type Recorder struct {
	gatherer prometheus.Gatherer
	now      func() time.Time
	rules    []rule

	// sampling is held during Sample. It protects previous.
	sampling sync.Mutex
	previous *gathering // nil before the first sample

	mu struct {
		sync.Mutex
		count  int // number of samples since New; sample n is at index n % Samples
		times  [Samples]int64
		series map[seriesKey]*series
	}
}

// seriesKey identifies a series. label is "" for a metric that is not divided by a label.
type seriesKey struct{ name, label string }

// series contains the recorded values of a series.
type series struct {
	unit   string
	last   int              // number of the newest sample with a value
	values [Samples]float32 // NaN without a value
}

// New returns a recorder without samples. gatherer must return all series of a metric at each call. now
// returns the current time.
func New(gatherer prometheus.Gatherer, now func() time.Time) *Recorder {
	r := &Recorder{gatherer: gatherer, now: now, rules: rules()}
	r.mu.series = map[seriesKey]*series{}
	return r
}

// Run records a sample immediately, and then one sample per Period until ctx ends.
func (r *Recorder) Run(ctx context.Context) {
	ticker := time.NewTicker(Period)
	defer ticker.Stop()
	for {
		r.Sample()
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// Sample records one sample. Rates and quantiles cover the time since the previous sample; the first sample has
// none. If the gatherer returns an error, the sample contains the metrics that the gatherer returned in
// addition to the error.
func (r *Recorder) Sample() {
	r.sampling.Lock()
	defer r.sampling.Unlock()
	at := r.now()
	families, err := r.gatherer.Gather()
	current := newGathering(r.rules, families)
	current.at, current.complete = at, err == nil
	values := current.values(r.previous)
	r.previous = current
	r.add(at, values)
}

func (r *Recorder) add(at time.Time, values []value) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := r.mu.count
	r.mu.count++
	r.mu.times[n%Samples] = at.Unix()
	nan := float32(math.NaN())
	for key, s := range r.mu.series {
		s.values[n%Samples] = nan
		if n-s.last >= Samples {
			delete(r.mu.series, key)
		}
	}
	for _, v := range values {
		s := r.mu.series[v.seriesKey]
		if s == nil {
			if len(r.mu.series) >= MaxSeries {
				continue
			}
			s = &series{unit: v.unit}
			for i := range s.values {
				s.values[i] = nan
			}
			r.mu.series[v.seriesKey] = s
		}
		s.last, s.values[n%Samples] = n, float32(v.value)
	}
}
