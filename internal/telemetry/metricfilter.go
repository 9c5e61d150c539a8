package telemetry

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"google.golang.org/protobuf/proto"
)

// unexpected replaces label values that are not allowed, as in kube-apiserver.
const unexpected = "unexpected"

// MetricFilter selects the served metrics. The zero value serves all of them unchanged.
type MetricFilter struct {
	// Disabled are the names of metrics that are not served.
	Disabled []string
	// AllowedLabels are the allowed values of a label of a metric, by "METRIC,LABEL". Other values are
	// replaced with "unexpected", and series that become equal are merged: counters, gauges and
	// histograms are added.
	AllowedLabels map[string][]string
}

// ParseAllowedLabels parses the values of METRIC,LABEL='VALUE,VALUE', with or without the quotes,
// which kube-apiserver's flag --allow-metric-labels has. Keys are not changed.
func ParseAllowedLabels(values map[string]string) (map[string][]string, error) {
	allowed := make(map[string][]string, len(values))
	for key, list := range values {
		metric, label, found := strings.Cut(key, ",")
		if !found || metric == "" || label == "" || strings.Contains(label, ",") {
			return nil, fmt.Errorf("%q is not of the form METRIC,LABEL", key)
		}
		allowed[key] = strings.Split(strings.Trim(list, "'"), ",")
	}
	return allowed, nil
}

// Gatherer returns a gatherer that serves the metrics of all with this filter.
func (f *MetricFilter) Gatherer(all prometheus.Gatherer) prometheus.Gatherer {
	if len(f.Disabled) == 0 && len(f.AllowedLabels) == 0 {
		return all
	}
	return prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) {
		families, err := all.Gather()
		families = slices.DeleteFunc(families, func(family *dto.MetricFamily) bool {
			return slices.Contains(f.Disabled, family.GetName())
		})
		for _, family := range families {
			err = errors.Join(err, f.limitLabels(family))
		}
		return families, err
	})
}

// limitLabels replaces the label values of a family that are not allowed, and merges equal series.
func (f *MetricFilter) limitLabels(family *dto.MetricFamily) error {
	replaced := false
	for _, metric := range family.Metric {
		for i, label := range metric.Label {
			allowed, limited := f.AllowedLabels[family.GetName()+","+label.GetName()]
			if !limited || slices.Contains(allowed, label.GetValue()) {
				continue
			}
			// The label and its slice belong to the metric.
			metric.Label = slices.Clone(metric.Label)
			metric.Label[i] = &dto.LabelPair{Name: label.Name, Value: proto.String(unexpected)}
			replaced = true
		}
	}
	if !replaced {
		return nil
	}
	merged := map[string]*dto.Metric{}
	for _, metric := range family.Metric {
		key := labelKey(metric.Label)
		if first := merged[key]; first != nil {
			if err := addMetric(first, metric); err != nil {
				return fmt.Errorf("merge series of %s: %w", family.GetName(), err)
			}
			continue
		}
		merged[key] = metric
	}
	family.Metric = family.Metric[:0]
	for _, key := range slices.Sorted(maps.Keys(merged)) {
		family.Metric = append(family.Metric, merged[key])
	}
	return nil
}

func labelKey(labels []*dto.LabelPair) string {
	var key strings.Builder
	for _, label := range labels {
		fmt.Fprintf(&key, "%q=%q,", label.GetName(), label.GetValue())
	}
	return key.String()
}

// addMetric adds the value of a metric to another one of the same family.
func addMetric(to, from *dto.Metric) error {
	switch {
	case to.Counter != nil && from.Counter != nil:
		to.Counter.Value = proto.Float64(to.Counter.GetValue() + from.Counter.GetValue())
	case to.Gauge != nil && from.Gauge != nil:
		to.Gauge.Value = proto.Float64(to.Gauge.GetValue() + from.Gauge.GetValue())
	case to.Histogram != nil && from.Histogram != nil && len(to.Histogram.Bucket) == len(from.Histogram.Bucket):
		sum := to.Histogram
		sum.SampleCount = proto.Uint64(sum.GetSampleCount() + from.Histogram.GetSampleCount())
		sum.SampleSum = proto.Float64(sum.GetSampleSum() + from.Histogram.GetSampleSum())
		for i, bucket := range sum.Bucket {
			bucket.CumulativeCount = proto.Uint64(bucket.GetCumulativeCount() + from.Histogram.Bucket[i].GetCumulativeCount())
		}
	default:
		return errors.New("only counters, gauges and histograms with equal buckets can be added")
	}
	return nil
}
