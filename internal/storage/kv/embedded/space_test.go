package embedded

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"mainstay.dev/mainstay/internal/storage/kv"
)

const (
	volumeValue     = 32 << 10 // bytes
	volumeRetention = time.Second
)

// fillVolume puts random values with keys from prefix until there is no space, and calls put with each
// key that is acknowledged.
func fillVolume(t *testing.T, s *Store, prefix string, put func(key string)) {
	t.Helper()
	value := make([]byte, volumeValue)
	random := rand.NewChaCha8([32]byte{})
	for i := 0; ; i++ {
		key := fmt.Sprintf("%s%06d", prefix, i)
		_, _ = random.Read(value)
		_, err := s.Commit(t.Context(), kv.Op{Key: key, Value: value, Expect: kv.AnyRevision})
		switch {
		case err == nil:
			put(key)
		case errors.Is(err, kv.ErrNoSpace):
			return
		case !errors.Is(err, kv.ErrUnavailable):
			t.Fatal(err)
		default:
			time.Sleep(time.Millisecond) // the store is being reopened
		}
	}
}

// emptyVolume deletes every second key on a full volume, waits until the store accepts puts again,
// and checks the other keys.
func emptyVolume(t *testing.T, s *Store, keys []string) {
	t.Helper()
	for i := 0; i < len(keys); i += 2 {
		await(t, "the deletion of "+keys[i], func() bool {
			_, err := s.Commit(t.Context(), kv.Op{Key: keys[i], Kind: kv.OpDelete, Expect: kv.AnyRevision})
			return err == nil
		})
	}
	await(t, "puts", func() bool {
		_, err := s.Commit(t.Context(), kv.Op{Key: "/after", Value: make([]byte, volumeValue), Expect: kv.AnyRevision})
		return err == nil
	})
	for i := 1; i < len(keys); i += 2 {
		e, _, err := s.Get(t.Context(), keys[i], 0)
		if err != nil || e == nil || len(e.Value) != volumeValue {
			t.Fatalf("%s was acknowledged, got %v, %v", keys[i], e, err)
		}
	}
}

// TestQuota checks that a store that has reached its quota accepts deletions only, that the quota still
// applies after the store is reopened, and that the store accepts puts again after deletions.
func TestQuota(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("writes 64 MiB; TestSmallVolume fills a store with -short")
	}
	registry := prometheus.NewRegistry()
	cfg := Config{Dir: t.TempDir(), Retention: time.Second, Quota: 64 << 20, Registerer: registry}
	s := open(t, cfg)
	var keys []string
	fill := func(prefix string) {
		fillVolume(t, s, prefix, func(key string) { keys = append(keys, key) })
		if held := int64(len(keys) * volumeValue); held > cfg.Quota || held < cfg.Quota/2 {
			t.Errorf("the quota of %d bytes was reached with %d bytes of values", cfg.Quota, held)
		}
	}
	fill("/before")
	if err := s.Health(t.Context()); !errors.Is(err, kv.ErrNoSpace) || !strings.Contains(err.Error(), "--storage-quota") {
		t.Errorf("health: %v", err)
	}
	if alarm := gaugeValue(t, registry, "mainstay_kv_space_alarm"); alarm != 1 {
		t.Errorf("the metric of the alarm is %v", alarm)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	cfg.Registerer = nil
	s = open(t, cfg)
	fill("/more") // a newly opened store has smaller logs and can accept some puts
	emptyVolume(t, s, keys)
	await(t, "health", func() bool { return s.Health(t.Context()) == nil })
}

func gaugeValue(t *testing.T, registry *prometheus.Registry, name string) float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			return f.GetMetric()[0].GetGauge().GetValue()
		}
	}
	t.Fatalf("there is no metric %s", name)
	return 0
}
