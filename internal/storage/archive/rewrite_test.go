package archive

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"mainstay.dev/mainstay/internal/storage/kv"
	"mainstay.dev/mainstay/internal/storage/kv/embedded"
)

// TestRewrite rewrites all versions of one resource, which are deltas, and checks the archive.
func TestRewrite(t *testing.T) {
	t.Parallel()
	backend := openBackend(t, embedded.Config{})
	config := Config{Dir: filepath.Join(t.TempDir(), "history"), Prefix: "/registry/"}
	a := openArchive(t, backend, config)
	value := func(n int) string { return strings.Repeat("text that does not change ", 10) + fmt.Sprint(n) }
	first := put(t, backend, "secrets/a/x", value(0), minute(0))
	for n := 1; n < 20; n++ {
		put(t, backend, "secrets/a/x", value(n), minute(n))
	}
	put(t, backend, "secrets/a/unreadable", "bad", minute(20))
	last := put(t, backend, "pods/a/x", value(0), minute(20))
	catchUp(t, a)
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	report, err := Rewrite(t.Context(), config, func(key string, value []byte) ([]byte, bool, error) {
		if string(value) == "bad" {
			return nil, false, errors.New("no key")
		}
		return bytes.ToUpper(value), strings.Contains(key, "/secrets/"), nil
	})
	if err != nil || report.Versions != 22 || report.Rewritten != 20 || report.UnreadableCount != 1 || !strings.Contains(report.Unreadable[0], "secrets/a/unreadable") {
		t.Errorf("report %+v, %v", report, err)
	}
	checked, err := Check(t.Context(), config)
	if err != nil || checked.Keys != 3 || checked.Versions != 22 || checked.Position != last || len(checked.Sizes) != 2 {
		t.Errorf("check: %+v, %v", checked, err)
	}
	a = openArchive(t, backend, config)
	for n := range 20 {
		v, err := a.View(t.Context(), first+kv.Revision(n))
		if err != nil {
			t.Fatal(err)
		}
		if e, _, err := v.Get(t.Context(), "/registry/secrets/a/x", 0); err != nil || string(e.Value) != strings.ToUpper(value(n)) {
			t.Errorf("version %d: %+v, %v", n, e, err)
		}
	}
	missing := Config{Dir: filepath.Join(t.TempDir(), "none"), Prefix: "/registry/"}
	if report, err := Check(t.Context(), missing); err != nil || report.Position != 0 {
		t.Errorf("check without an archive: %+v, %v", report, err)
	}
}
