package host

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// starts starts a server and stops it when it is ready. It returns the error of Run.
func starts(t *testing.T, dir string, change func(*Config)) error {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close() // the server does not close it if New fails
	config := Config{Storage: StorageConfig{DataDir: dir}, Listen: ListenConfig{Listener: listener}, OnServing: func(Serving) { cancel() }}
	if change != nil {
		change(&config)
	}
	h, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	return h.Run(ctx)
}

// TestLostStore checks that a data directory that contains keys or other files but no store is rejected, unless
// --new-store is set.
func TestLostStore(t *testing.T) {
	t.Parallel()
	write := func(t *testing.T, path string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	remove := func(t *testing.T, path string) {
		t.Helper()
		if err := os.RemoveAll(path); err != nil {
			t.Fatal(err)
		}
	}
	for name, tt := range map[string]struct {
		prepare func(t *testing.T, dir string)
		says    string // part of the error; empty if the server starts
	}{
		"a new folder": {prepare: func(*testing.T, string) {}},
		"an empty file system": {prepare: func(t *testing.T, dir string) {
			if err := os.MkdirAll(filepath.Join(dir, "lost+found"), 0o700); err != nil {
				t.Fatal(err)
			}
		}},
		"a second start": {prepare: func(t *testing.T, dir string) {
			if err := starts(t, dir, nil); err != nil {
				t.Fatal(err)
			}
		}},
		"a second start, among files of others": {prepare: func(t *testing.T, dir string) {
			if err := starts(t, dir, nil); err != nil {
				t.Fatal(err)
			}
			write(t, filepath.Join(dir, "notes.txt"))
		}},
		"a first start that was cut short": {prepare: func(t *testing.T, dir string) {
			if err := starts(t, dir, nil); err != nil {
				t.Fatal(err)
			}
			remove(t, filepath.Join(dir, "store"))
			write(t, filepath.Join(dir, "store", "CREATING"))
		}},
		"the store is gone": {says: "there are keys in ", prepare: func(t *testing.T, dir string) {
			if err := starts(t, dir, nil); err != nil {
				t.Fatal(err)
			}
			remove(t, filepath.Join(dir, "store"))
		}},
		"the store was emptied": {says: "there are keys in ", prepare: func(t *testing.T, dir string) {
			if err := starts(t, dir, nil); err != nil {
				t.Fatal(err)
			}
			remove(t, filepath.Join(dir, "store"))
			if err := os.Mkdir(filepath.Join(dir, "store"), 0o700); err != nil {
				t.Fatal(err)
			}
		}},
		"files of others": {says: "4 files, such as a, b, c", prepare: func(t *testing.T, dir string) {
			for _, name := range []string{"a", "b", "c", "d"} {
				write(t, filepath.Join(dir, name))
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "data")
			tt.prepare(t, dir)
			err := starts(t, dir, nil)
			if tt.says == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), tt.says) || !strings.Contains(err.Error(), "--new-store") {
				t.Errorf("%v, want %q", err, tt.says)
			}
			if err := starts(t, dir, func(c *Config) { c.Storage.Embedded.NewStore = true }); err != nil {
				t.Errorf("with --new-store: %v", err)
			}
			if err := starts(t, dir, nil); err != nil {
				t.Errorf("the start after the start with --new-store: %v", err)
			}
		})
	}
}
