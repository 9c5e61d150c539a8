package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestStaleParts checks that partial files of killed processes are removed, and that partial files of
// running processes are not.
func TestStaleParts(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a[1]*.snapshot")
	old, running, other := path+".part-1", path+".part-2", path+"x.part-1"
	for _, name := range []string{old, running, other} {
		if err := os.WriteFile(name, []byte("part"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	then := time.Now().Add(-2 * staleAfter)
	for _, name := range []string{old, other} {
		if err := os.Chtimes(name, then, then); err != nil {
			t.Fatal(err)
		}
	}
	removeStaleParts(path)
	for name, stays := range map[string]bool{old: false, running: true, other: true} {
		if _, err := os.Lstat(name); (err == nil) != stays {
			t.Errorf("%s stays: %v, want %v", name, err, stays)
		}
	}
}
