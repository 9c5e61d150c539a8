package telemetry

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"google.golang.org/protobuf/proto"
)

// unexpectedLabel replaces label values that are not in an allow list, as in kube-apiserver.
const unexpectedLabel = "unexpected"

// MetricFilter restricts the metrics that a server exposes.
type MetricFilter struct {
	// Disabled contains the names of metrics that are not exposed.
	Disabled map[string]bool
	// AllowedValues contains the allowed values by metric and label. Other values are replaced with
	// "unexpected". Labels that are not listed may have any value.
	AllowedValues map[MetricLabel][]string
}

// MetricLabel identifies a label of a metric.
type MetricLabel struct{ Metric, Label string }

// Gatherer returns a gatherer with the metrics of g that the filter allows. If the filter is empty, the result
// is g itself. Series whose labels become equal are added up. The sum of summaries has no quantiles.
func (f MetricFilter) Gatherer(g prometheus.Gatherer) prometheus.Gatherer {
	if len(f.Disabled) == 0 && len(f.AllowedValues) == 0 {
		return g
	}
	labels := map[string][]string{} // labels with allow lists by metric
	for at := range f.AllowedValues {
		labels[at.Metric] = append(labels[at.Metric], at.Label)
	}
	return prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) {
		families, err := g.Gather()
		families = slices.DeleteFunc(families, func(m *dto.MetricFamily) bool { return f.Disabled[m.GetName()] })
		for i, family := range families {
			if len(labels[family.GetName()]) > 0 {
				families[i] = f.restrict(family)
			}
		}
		return families, err
	})
}

// restrict returns a copy of a metric in which label values that are not allowed are replaced. It
// does not modify the original series, because they may belong to collectors.
func (f MetricFilter) restrict(family *dto.MetricFamily) *dto.MetricFamily {
	restricted := &dto.MetricFamily{Name: family.Name, Help: family.Help, Type: family.Type, Unit: family.Unit}
	series := map[string]*dto.Metric{}
	for _, original := range family.Metric {
		metric := proto.Clone(original).(*dto.Metric)
		for _, pair := range metric.Label {
			allowed, listed := f.AllowedValues[MetricLabel{family.GetName(), pair.GetName()}]
			if listed && !slices.Contains(allowed, pair.GetValue()) {
				pair.Value = proto.String(unexpectedLabel)
			}
		}
		key := labelKey(metric.Label)
		if existing := series[key]; existing != nil {
			addSeries(existing, metric)
			continue
		}
		series[key] = metric
		restricted.Metric = append(restricted.Metric, metric)
	}
	slices.SortFunc(restricted.Metric, func(a, b *dto.Metric) int { return cmp.Compare(labelKey(a.Label), labelKey(b.Label)) })
	return restricted
}

// labelKey returns a text that is unique for a set of labels. The labels of a series are sorted.
func labelKey(labels []*dto.LabelPair) string {
	var key strings.Builder
	for _, pair := range labels {
		fmt.Fprintf(&key, "%q=%q,", pair.GetName(), pair.GetValue())
	}
	return key.String()
}

// addSeries adds the value of a series to another series of the same metric.
func addSeries(sum, other *dto.Metric) {
	switch {
	case sum.Counter != nil && other.Counter != nil:
		sum.Counter.Value = proto.Float64(sum.Counter.GetValue() + other.Counter.GetValue())
	case sum.Gauge != nil && other.Gauge != nil:
		sum.Gauge.Value = proto.Float64(sum.Gauge.GetValue() + other.Gauge.GetValue())
	case sum.Untyped != nil && other.Untyped != nil:
		sum.Untyped.Value = proto.Float64(sum.Untyped.GetValue() + other.Untyped.GetValue())
	case sum.Summary != nil && other.Summary != nil:
		sum.Summary.SampleCount = proto.Uint64(sum.Summary.GetSampleCount() + other.Summary.GetSampleCount())
		sum.Summary.SampleSum = proto.Float64(sum.Summary.GetSampleSum() + other.Summary.GetSampleSum())
		sum.Summary.Quantile = nil
	case sum.Histogram != nil && other.Histogram != nil:
		addHistogram(sum.Histogram, other.Histogram)
	}
}

// addHistogram adds a histogram to another histogram. All series of a metric have the same buckets.
func addHistogram(sum, other *dto.Histogram) {
	sum.SampleCount = proto.Uint64(sum.GetSampleCount() + other.GetSampleCount())
	sum.SampleSum = proto.Float64(sum.GetSampleSum() + other.GetSampleSum())
	for i, bucket := range sum.Bucket {
		if i < len(other.Bucket) {
			bucket.CumulativeCount = proto.Uint64(bucket.GetCumulativeCount() + other.Bucket[i].GetCumulativeCount())
		}
	}
}
