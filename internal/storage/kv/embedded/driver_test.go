package embedded

import (
	"path/filepath"
	"testing"

	"mainstay.dev/mainstay/internal/storage/kv/driver"
)

// TestDriver opens stores by their URLs.
func TestDriver(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "a store %41")
	for _, url := range []string{URL(dir), MemoryURL} {
		d, err := driver.List{Driver(Config{})}.Find([]string{url})
		if err != nil {
			t.Fatal(err)
		}
		store, err := d.Open(t.Context(), driver.Config{URLs: []string{url}})
		if err != nil {
			t.Fatalf("open %s: %v", url, err)
		}
		if err := store.Close(); err != nil {
			t.Errorf("close %s: %v", url, err)
		}
	}
	if exists, err := Exists(dir); err != nil || !exists {
		t.Errorf("the store in %s: %t, %v", dir, exists, err)
	}
	if d := Driver(Config{}); !d.InDataDir || d.Shared {
		t.Errorf("driver %+v, want InDataDir and not Shared", d)
	}
}
