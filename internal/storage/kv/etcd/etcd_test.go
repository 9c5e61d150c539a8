package etcd

import (
	"testing"

	"mainstay.dev/mainstay/internal/storage/kv"
	"mainstay.dev/mainstay/internal/storage/kv/etcdtest"
	"mainstay.dev/mainstay/internal/storage/kv/kvtest"
)

func TestBackend(t *testing.T) {
	t.Parallel()
	kvtest.Run(t, func(t *testing.T) kv.Backend {
		return open(t, Config{Endpoints: etcdtest.Start(t, etcdtest.Options{}).URLs()})
	})
}

// open opens a store and closes it when the test ends.
func open(t testing.TB, config Config) *Store {
	t.Helper()
	s, err := Open(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}
