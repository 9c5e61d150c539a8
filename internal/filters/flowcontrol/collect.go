package flowcontrol

import (
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"mainstay.dev/mainstay/internal/filters/flowcontrol/fairqueue"
)

const metricPrefix = "apiserver_flowcontrol_"

// families describes the metrics that are read from Controls, by name without metricPrefix.
type families map[string]family

type family struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
}

func newFamilies() families {
	f := families{}
	add := func(kind prometheus.ValueType, name, help string, labels ...string) {
		f[name] = family{prometheus.NewDesc(metricPrefix+name, help, labels, nil), kind}
	}
	flow := []string{levelLabel, schemaLabel}
	const counter, gauge = prometheus.CounterValue, prometheus.GaugeValue
	add(counter, "rejected_requests_total", "[BETA] Number of requests rejected by API Priority and Fairness subsystem", append(flow, "reason")...)
	add(counter, "dispatched_requests_total", "[BETA] Number of requests executed by API Priority and Fairness subsystem", flow...)
	add(counter, "request_dispatch_no_accommodation_total", "[ALPHA] Number of times a dispatch attempt resulted in a non accommodation due to lack of available seats", flow...)
	add(gauge, "current_inqueue_requests", "[BETA] Number of requests currently pending in queues of the API Priority and Fairness subsystem", flow...)
	add(gauge, "current_inqueue_seats", "[ALPHA] Number of seats currently pending in queues of the API Priority and Fairness subsystem", flow...)
	add(gauge, "current_executing_requests", "[BETA] Number of requests in initial (for a WATCH) or any (for a non-WATCH) execution stage in the API Priority and Fairness subsystem", flow...)
	add(gauge, "current_executing_seats", "[BETA] Concurrency (number of seats) occupied by the currently executing (initial stage for a WATCH, any stage otherwise) requests in the API Priority and Fairness subsystem", flow...)
	add(gauge, "current_r", "[ALPHA] R(time of last change)", levelLabel)
	add(gauge, "dispatch_r", "[ALPHA] R(time of last dispatch)", levelLabel)
	add(gauge, "latest_s", "[ALPHA] S(most recently dispatched request)", levelLabel)
	add(gauge, "next_s_bounds", "[ALPHA] min and max, over queues, of S(oldest waiting request in queue)", levelLabel, "bound")
	add(gauge, "next_discounted_s_bounds", "[ALPHA] min and max, over queues, of S(oldest waiting request in queue) - estimated work in progress", levelLabel, "bound")
	add(gauge, "nominal_limit_seats", "[BETA] Nominal number of execution seats configured for each priority level", levelLabel)
	add(gauge, "lower_limit_seats", "[ALPHA] Configured lower bound on number of execution seats available to each priority level", levelLabel)
	add(gauge, "upper_limit_seats", "[ALPHA] Configured upper bound on number of execution seats available to each priority level", levelLabel)
	add(gauge, "current_limit_seats", "[ALPHA] current derived number of execution seats available to each priority level", levelLabel)
	add(gauge, "demand_seats_high_watermark", "[ALPHA] High watermark, over last adjustment period, of demand_seats", levelLabel)
	add(gauge, "demand_seats_average", "[ALPHA] Time-weighted average, over last adjustment period, of demand_seats", levelLabel)
	add(gauge, "demand_seats_stdev", "[ALPHA] Time-weighted standard deviation, over last adjustment period, of demand_seats", levelLabel)
	add(gauge, "demand_seats_smoothed", "[ALPHA] Smoothed seat demands", levelLabel)
	add(gauge, "target_seats", "[ALPHA] Seat allocation targets", levelLabel)
	add(gauge, "seat_fair_frac", "[ALPHA] Fair fraction of server's concurrency to allocate to each priority level that can use it")
	const everyNanosecond = "EXPERIMENTAL: [ALPHA] Observations, at the end of every nanosecond, of "
	add(0, "priority_level_seat_utilization", everyNanosecond+"utilization of seats for any stage of execution (but only initial stage for WATCHes)", "phase", levelLabel)
	add(0, "priority_level_request_utilization", everyNanosecond+"number of requests (as a fraction of the relevant limit) waiting or in any stage of execution (but only initial stage for WATCHes)", "phase", levelLabel)
	add(0, "demand_seats", everyNanosecond+"(the number of seats each priority level could use) / (nominal number of seats for that level)", levelLabel)
	add(0, "read_vs_write_current_requests", everyNanosecond+"the number of requests (as a fraction of the relevant limit) waiting or in regular stage of execution", "phase", "request_kind")
	return f
}

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(to chan<- *prometheus.Desc) {
	for _, f := range m.families {
		to <- f.desc
	}
}

// Collect implements prometheus.Collector. Samples of several Controls with the same labels are
// added up.
func (m *Metrics) Collect(to chan<- prometheus.Metric) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := samples{values: map[sampleKey]float64{}, histograms: map[sampleKey]fairqueue.Measured{}}
	for c := range m.controls {
		c.sample(&s)
	}
	for key, value := range s.values {
		f := m.families[key.family]
		to <- prometheus.MustNewConstMetric(f.desc, f.kind, value, key.list()...)
	}
	for key, h := range s.histograms {
		to <- prometheus.MustNewConstHistogram(m.families[key.family].desc, h.Count, h.Sum, h.Buckets, key.list()...)
	}
}

// samples contains the samples of one collection.
type samples struct {
	values     map[sampleKey]float64
	histograms map[sampleKey]fairqueue.Measured
}

// sampleKey is a metric family and its label values, joined by labelSeparator.
type sampleKey struct{ family, labels string }

// labelSeparator separates label values. Names of objects cannot contain it.
const labelSeparator = "\x00"

func keyOf(family string, labels []string) sampleKey {
	return sampleKey{family, strings.Join(labels, labelSeparator)}
}

func (k sampleKey) list() []string {
	if k.labels == "" {
		return nil
	}
	return strings.Split(k.labels, labelSeparator)
}

func (s *samples) add(family string, value float64, labels ...string) {
	s.values[keyOf(family, labels)] += value
}

func (s *samples) addSpan(family string, span fairqueue.Span, level string) {
	s.add(family, float64(span.Min), level, "min")
	s.add(family, float64(span.Max), level, "max")
}

func (s *samples) addMeasured(family string, m fairqueue.Measured, labels ...string) {
	key := keyOf(family, labels)
	if before, ok := s.histograms[key]; ok {
		m.Count, m.Sum = m.Count+before.Count, m.Sum+before.Sum
		for bound, n := range before.Buckets {
			m.Buckets[bound] += n
		}
	}
	s.histograms[key] = m
}

// sample adds the samples of a Control. A Control has no samples before its first request.
func (c *Control) sample(s *samples) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.current.Load() == nil {
		return
	}
	s.add("seat_fair_frac", c.fairFrac)
	c.kinds.sample(s)
	for _, l := range c.activeLevels {
		l.sample(s)
		for schema, f := range l.flows {
			sampleFlow(s, l.set.FlowCounts(f.counters), l.name, schema)
		}
	}
}

func (l *level) sample(s *samples) {
	for family, value := range map[string]float64{
		"nominal_limit_seats": float64(l.nominal), "lower_limit_seats": float64(l.min), "upper_limit_seats": float64(l.max),
		"current_limit_seats": float64(l.current), "target_seats": l.demand.target, "demand_seats_high_watermark": l.demand.highWatermark,
		"demand_seats_average": l.demand.average, "demand_seats_stdev": l.demand.deviation, "demand_seats_smoothed": l.demand.smoothed,
		"current_r": float64(l.set.Progress()),
	} {
		s.add(family, value, l.name)
	}
	if last, has := l.set.LastDispatch(); has {
		s.add("dispatch_r", float64(last.Progress), l.name)
		s.add("latest_s", float64(last.Start), l.name)
		s.addSpan("next_s_bounds", last.Next, l.name)
		s.addSpan("next_discounted_s_bounds", last.Discounted, l.name)
	}
	measured := l.set.Measured()
	s.addMeasured("priority_level_seat_utilization", measured.Seats, "executing", l.name)
	s.addMeasured("priority_level_request_utilization", measured.Executing, "executing", l.name)
	s.addMeasured("priority_level_request_utilization", measured.Waiting, "waiting", l.name)
	s.addMeasured("demand_seats", measured.Demand, l.name)
}

// sampleFlow adds the counters of a flow, except those that the flow has never used.
func sampleFlow(s *samples, f fairqueue.Flow, level, schema string) {
	if f.Dispatched > 0 {
		s.add("dispatched_requests_total", float64(f.Dispatched), level, schema)
		s.add("current_executing_requests", float64(f.ExecutingRequests), level, schema)
		s.add("current_executing_seats", float64(f.ExecutingSeats), level, schema)
	}
	if f.NoAccommodation > 0 {
		s.add("request_dispatch_no_accommodation_total", float64(f.NoAccommodation), level, schema)
	}
	if f.Queued > 0 {
		s.add("current_inqueue_requests", float64(f.WaitingRequests), level, schema)
		s.add("current_inqueue_seats", float64(f.WaitingSeats), level, schema)
	}
	for reason, n := range f.Rejected {
		if n > 0 {
			s.add("rejected_requests_total", float64(n), level, schema, fairqueue.Reason(reason).String())
		}
	}
}

// sortedLevels returns the levels sorted by name. The caller must hold c.mu.
func (c *Control) sortedLevels() []*level {
	var all []*level
	for _, l := range c.activeLevels {
		all = append(all, l)
	}
	slices.SortFunc(all, func(a, b *level) int { return strings.Compare(a.name, b.name) })
	return all
}
