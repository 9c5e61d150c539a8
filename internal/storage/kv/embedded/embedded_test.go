package embedded

import (
	"context"
	"testing"
	"time"

	"mainstay.dev/mainstay/internal/storage/kv"
	"mainstay.dev/mainstay/internal/storage/kv/kvtest"
)

func TestBackend(t *testing.T) {
	t.Run("Memory", func(t *testing.T) {
		t.Parallel()
		kvtest.Run(t, func(t *testing.T) kv.Backend { return open(t, Config{InMemory: true}) })
	})
	t.Run("Disk", func(t *testing.T) {
		t.Parallel()
		kvtest.Run(t, func(t *testing.T) kv.Backend { return open(t, Config{Dir: t.TempDir()}) })
	})
	// The store releases its memory continuously, as an idle store does, so transactions are
	// evaluated and watches are served from disk.
	t.Run("WithoutCache", func(t *testing.T) {
		t.Parallel()
		kvtest.Run(t, func(t *testing.T) kv.Backend {
			s := open(t, Config{InMemory: true})
			go s.releaseOften(t.Context())
			return s
		})
	})
}

// releaseOften releases the cached commits every millisecond until ctx ends.
func (s *Store) releaseOften(ctx context.Context) {
	var last kv.Revision
	for tick := time.NewTicker(time.Millisecond); ; {
		select {
		case <-tick.C:
			last = s.releaseMemory(last)
		case <-ctx.Done():
			tick.Stop()
			return
		}
	}
}

func open(t testing.TB, cfg Config) *Store {
	t.Helper()
	s, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}
