package work_test

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"mainstay.dev/mainstay/internal/controllers/work"
)

// TestMetrics checks the metrics of two queues with the same name. One key is processed for two seconds, one
// key waits, and one key has failed.
func TestMetrics(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewPedanticRegistry()
	metrics, err := work.NewMetrics(registry)
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		open := func(do func(context.Context, string) error) *work.Queue[string] {
			return work.New(t.Context(), work.Config[string]{Name: "test", Workers: 1, Sync: do, Logger: slog.New(slog.DiscardHandler), Metrics: metrics})
		}
		slow := open(func(context.Context, string) error { time.Sleep(2 * time.Second); return nil })
		failing := open(func(context.Context, string) error {
			return &work.RetryError{After: time.Hour, Err: errors.New("failed")}
		})
		slow.Add("a")
		slow.Add("b")
		slow.Add("b")
		failing.Add("c")
		time.Sleep(time.Second)
		expect := func(depth, running float64) {
			t.Helper()
			want := map[string]float64{
				"workqueue_adds_total": 3, "workqueue_retries_total": 1, "workqueue_depth": depth,
				"workqueue_unfinished_work_seconds": running, "workqueue_longest_running_processor_seconds": running,
			}
			if got := values(t, registry); !maps.Equal(got, want) {
				t.Errorf("got %v, want %v", got, want)
			}
		}
		expect(1, 1)
		slow.Close() // discards the waiting key
		failing.Close()
		expect(0, 0)
	})
}

// values returns the value of each counter and gauge.
func values(t *testing.T, registry *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if m.GetHistogram() == nil {
				got[f.GetName()] = m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	return got
}
