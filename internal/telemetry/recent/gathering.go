package recent

import (
	"cmp"
	"math"
	"slices"
	"time"

	dto "github.com/prometheus/client_model/go"
)

// gathering contains the sums of the metrics at one point in time.
type gathering struct {
	at time.Time
	// complete reports whether the gatherer returned all metrics.
	complete bool
	sums     []*sum // sorted by rule and label; at most MaxSeries
	byKey    map[seriesKey]*sum
}

// sum adds up the series of a metric that have the same label.
type sum struct {
	seriesKey
	unit  string
	gauge bool
	// value is the value of a gauge or counter.
	value float64
	// counts are the cumulative numbers of observations in the buckets of a histogram. The last bucket is
	// unlimited; bounds are the upper bounds of the other buckets.
	counts, bounds []float64
}

// value is the value of a series in one sample.
type value struct {
	seriesKey
	unit  string
	value float64
}

func newGathering(rules []rule, families []*dto.MetricFamily) *gathering {
	byName := make(map[string]*dto.MetricFamily, len(families))
	for _, family := range families {
		byName[family.GetName()] = family
	}
	g := &gathering{byKey: map[seriesKey]*sum{}}
	for _, rule := range rules {
		first := len(g.sums)
		for _, metric := range byName[rule.metric].GetMetric() {
			label, ok := "", true
			if rule.label != nil {
				label, ok = rule.label(metric.Label)
			}
			if ok {
				g.sum(seriesKey{rule.name, label}, rule.unit).add(metric)
			}
		}
		slices.SortFunc(g.sums[first:], func(a, b *sum) int { return cmp.Compare(a.label, b.label) })
	}
	for len(g.sums) > MaxSeries {
		last := g.sums[len(g.sums)-1]
		g.sums = g.sums[:len(g.sums)-1]
		delete(g.byKey, last.seriesKey)
	}
	return g
}

// sum returns the sum with a key. It creates the sum if necessary.
func (g *gathering) sum(key seriesKey, unit string) *sum {
	s := g.byKey[key]
	if s == nil {
		s = &sum{seriesKey: key, unit: unit}
		g.sums = append(g.sums, s)
		g.byKey[key] = s
	}
	return s
}

func (s *sum) add(m *dto.Metric) {
	switch {
	case m.Gauge != nil:
		s.gauge = true
		s.value += m.Gauge.GetValue()
	case m.Counter != nil:
		s.value += m.Counter.GetValue()
	case m.Histogram != nil:
		s.addHistogram(m.Histogram)
	}
}

// addHistogram adds the buckets of a histogram. All series of a metric have the same bounds.
func (s *sum) addHistogram(h *dto.Histogram) {
	buckets := h.GetBucket()
	if n := len(buckets); n > 0 && math.IsInf(buckets[n-1].GetUpperBound(), +1) {
		buckets = buckets[:n-1] // its count equals the sample count
	}
	if s.counts == nil {
		s.counts = make([]float64, len(buckets)+1)
		for _, b := range buckets {
			s.bounds = append(s.bounds, b.GetUpperBound())
		}
	}
	if len(buckets) != len(s.bounds) {
		return
	}
	for i, b := range buckets {
		s.counts[i] += float64(b.GetCumulativeCount())
	}
	s.counts[len(buckets)] += float64(h.GetSampleCount())
}

// values returns the values of all series, except series without a value. previous is the gathering before
// g, or nil.
func (g *gathering) values(previous *gathering) []value {
	var values []value
	add := func(s *sum, suffix string, v float64) {
		if !math.IsNaN(v) && !math.IsInf(v, 0) {
			values = append(values, value{seriesKey{s.name + suffix, s.label}, s.unit, v})
		}
	}
	for _, s := range g.sums {
		if s.gauge {
			add(s, "", s.value)
			continue
		}
		increase := s.increase(previous)
		if increase == nil {
			continue
		}
		if s.counts != nil {
			add(s, "P50", quantile(0.5, s.bounds, increase.counts))
			add(s, "P99", quantile(0.99, s.bounds, increase.counts))
		} else if elapsed := g.at.Sub(previous.at).Seconds(); elapsed > 0 {
			add(s, "", increase.value/elapsed)
		}
	}
	return values
}

// increase returns the increase since the previous gathering, or nil if it is unknown. If the sum has
// decreased, the increase is unknown, because the server has deleted series, such as those of resources that it
// no longer serves.
func (s *sum) increase(previous *gathering) *sum {
	if previous == nil {
		return nil
	}
	before := previous.byKey[s.seriesKey]
	if before == nil {
		if !previous.complete {
			return nil
		}
		before = &sum{} // new series start at zero
	}
	if before.counts != nil && len(before.counts) != len(s.counts) {
		return nil
	}
	d := &sum{value: s.value - before.value, counts: slices.Clone(s.counts)}
	for i, n := range before.counts {
		d.counts[i] -= n
	}
	if d.value < 0 || len(d.counts) > 0 && slices.Min(d.counts) < 0 {
		return nil
	}
	return d
}

// quantile estimates a quantile of a histogram in the same way as Prometheus's histogram_quantile. It
// interpolates linearly within a bucket, and returns the largest bound for the unlimited bucket. counts are
// cumulative and have one element more than bounds. Without observations, the result is NaN.
func quantile(q float64, bounds, counts []float64) float64 {
	if len(bounds) == 0 || counts[len(bounds)] == 0 {
		return math.NaN()
	}
	rank := q * counts[len(bounds)]
	i := slices.IndexFunc(counts, func(n float64) bool { return n >= rank })
	switch {
	case i < 0 || i == len(bounds):
		return bounds[len(bounds)-1]
	case i > 0:
		return bounds[i-1] + (bounds[i]-bounds[i-1])*(rank-counts[i-1])/(counts[i]-counts[i-1])
	case bounds[0] <= 0:
		return bounds[0]
	}
	return bounds[0] * rank / counts[0]
}
