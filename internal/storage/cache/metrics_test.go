package cache

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"mainstay.dev/mainstay/internal/storage/storagetest"
)

// TestForget checks that the series of a removed resource are deleted.
func TestForget(t *testing.T) {
	t.Parallel()
	backend := storagetest.InMemory(t)
	registry := prometheus.NewRegistry()
	metrics, err := NewMetrics(registry)
	if err != nil {
		t.Fatal(err)
	}
	feed, err := NewFeed(FeedConfig{Backend: backend, Prefix: "/registry", Metrics: metrics})
	if err != nil {
		t.Fatal(err)
	}
	deleted := schema.GroupResource{Group: "example.com", Resource: "widgets"}
	feed.metrics.forResource(deleted).listed(indexTerm{}.name(), 1, 1)
	if families, err := registry.Gather(); err != nil || len(families) == 0 {
		t.Fatal("there are no series", err)
	}
	feed.Forget(deleted)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		t.Error("series not deleted:", family)
	}
}
