package host

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"mainstay.dev/mainstay/internal/feature"
)

func TestFeatures(t *testing.T) {
	t.Parallel()
	gates, err := feature.Defaults().With(feature.Set{"WatchList": false})
	if err != nil {
		t.Fatal(err)
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(newFeatures(gates))
	families, err := registry.Gather()
	if err != nil || len(families) != 1 || families[0].GetName() != "kubernetes_feature_enabled" {
		t.Fatal(families, err)
	}
	type sample struct {
		stage string
		value float64
	}
	got := map[string]sample{}
	for _, m := range families[0].GetMetric() {
		got[m.GetLabel()[0].GetValue()] = sample{m.GetLabel()[1].GetValue(), m.GetGauge().GetValue()}
	}
	for gate, want := range map[string]sample{
		"WatchList": {"BETA", 0}, "OpenAPIEnums": {"BETA", 1}, "JobManagedBy": {"", 1}, "AllAlpha": {"ALPHA", 0}, "StorageNamespaceIndex": {"DEPRECATED", 1},
	} {
		if got[gate] != want {
			t.Errorf("%s is %v, want %v", gate, got[gate], want)
		}
	}
}
