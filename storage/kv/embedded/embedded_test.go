package embedded

import (
	"testing"

	"mainstay.dev/mainstay/storage/kv"
	"mainstay.dev/mainstay/storage/kv/kvtest"
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
