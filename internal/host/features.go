package host

import (
	"github.com/prometheus/client_golang/prometheus"

	"mainstay.dev/mainstay/internal/feature"
)

// features is the metric kubernetes_feature_enabled. Its values are computed on each collection.
type features struct {
	gates feature.Gates
	desc  *prometheus.Desc
}

// newFeatures returns a metric with all feature gates that exist in the Kubernetes version of gates.
func newFeatures(gates feature.Gates) prometheus.Collector {
	return &features{gates, prometheus.NewDesc("kubernetes_feature_enabled",
		"[BETA] This metric records the data about the stage and enablement of a k8s feature.", []string{"name", "stage"}, nil)}
}

// Describe implements prometheus.Collector.
func (f *features) Describe(descs chan<- *prometheus.Desc) { descs <- f.desc }

// Collect implements prometheus.Collector. As in kube-apiserver, the stage of a generally available
// feature is empty.
func (f *features) Collect(metrics chan<- prometheus.Metric) {
	for spec := range f.gates.Known() {
		stage, value := string(spec.Stage), 0.0
		if spec.Stage == feature.GA {
			stage = ""
		}
		if f.gates.Enabled(spec.Gate) {
			value = 1
		}
		metrics <- prometheus.MustNewConstMetric(f.desc, prometheus.GaugeValue, value, string(spec.Gate), stage)
	}
}
