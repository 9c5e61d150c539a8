package embedded

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"mainstay.dev/mainstay/internal/storage/kv"
	"mainstay.dev/mainstay/internal/storage/kv/versionkey"
)

// killed returns a copy of the directory of a store in the state after kill -9: it contains all writes,
// synced or not.
func killed(t *testing.T, s *Store) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "d")
	if err := os.CopyFS(dir, os.DirFS(s.disk.dir)); err != nil {
		t.Fatal(err)
	}
	return dir
}

// logsOf returns the non-empty log files of a store, oldest first.
func logsOf(t *testing.T, dir string) (logs []string) {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(dir, "*.log"))
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(all)
	for _, name := range all {
		if info, err := os.Stat(name); err != nil || info.Size() > 0 {
			logs = append(logs, name)
		}
	}
	return logs
}

// TestLostLog checks that Open rejects a store whose newest log is missing, empty or truncated, and
// that Check detects the damage. With AcceptLostWrites, the store opens at a revision that no
// client has seen.
func TestLostLog(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]func(string) error{
		"removed": os.Remove,
		"emptied": func(name string) error { return os.Truncate(name, 0) },
		"halved": func(name string) error {
			info, err := os.Stat(name)
			if err != nil {
				return err
			}
			return os.Truncate(name, info.Size()/2)
		},
		"without its last bytes": func(name string) error {
			raw, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			// The preallocated, unwritten part of the log contains zeros.
			return os.Truncate(name, int64(len(bytes.TrimRight(raw, "\x00"))-3))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := open(t, Config{Dir: filepath.Join(t.TempDir(), "d"), Retention: -1})
			j := newJournal()
			for i := range 200 {
				if err := j.write(t, s, fmt.Sprintf("k%d", i%20), 1000); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := s.Commit(t.Context(), kv.Op{Key: "expiring", TTL: time.Hour}); err != nil {
				t.Fatal(err)
			}
			newest := kv.Revision(s.published.Load())
			dir := killed(t, s)
			logs := logsOf(t, dir)
			if err := damage(logs[len(logs)-1]); err != nil {
				t.Fatal(err)
			}
			if _, err := Check(t.Context(), dir, nil); !errors.Is(err, ErrLostWrites) {
				t.Errorf("check: %v, want ErrLostWrites", err)
			}
			_, err := Open(Config{Dir: dir, Retention: -1})
			if !errors.Is(err, kv.ErrCorrupt) || !strings.Contains(err.Error(), "snapshot") {
				t.Fatalf("open: %v", err)
			}
			if !errors.Is(err, ErrLostWrites) {
				t.Fatalf("open: %v, want ErrLostWrites", err)
			}
			checkAccepted(t, dir, newest)
		})
	}
}

// checkAccepted opens, with AcceptLostWrites, a store that has lost writes, and checks its revision, watches
// and content.
func checkAccepted(t *testing.T, dir string, newest kv.Revision) {
	t.Helper()
	s := open(t, Config{Dir: dir, Retention: -1, AcceptLostWrites: true})
	at, err := s.CurrentRevision(t.Context())
	if err != nil || at < newest+restoreEpoch {
		t.Errorf("the store continues at revision %d (%v), the newest was %d", at, err, newest)
	}
	if res, err := s.Commit(t.Context(), kv.Op{Key: "after", Expect: kv.AnyRevision}); err != nil || res.Revision <= at {
		t.Errorf("commit: %+v, %v", res, err)
	}
	if _, err := s.Watch(t.Context(), "", "", newest); !errors.Is(err, kv.ErrCompacted) {
		t.Errorf("watch from before: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := Check(t.Context(), dir, nil); err != nil {
		t.Errorf("check after the loss was accepted: %v", err)
	}
	s = open(t, Config{Dir: dir, Retention: -1})
	if again, err := s.CurrentRevision(t.Context()); err != nil || again != at+1 {
		t.Errorf("revision %d (%v) after another start, want %d", again, err, at+1)
	}
}

// TestLostOlderLog checks that Open detects a missing log that is not the newest log.
func TestLostOlderLog(t *testing.T) {
	t.Parallel()
	mem := vfs.NewMem()
	s := open(t, Config{Dir: "d", FS: mem, Retention: -1})
	commit := func(ttl time.Duration) {
		t.Helper()
		if _, err := s.Commit(t.Context(), kv.Op{Key: "a", Value: []byte("x"), TTL: ttl, Expect: kv.AnyRevision},
			kv.Op{Key: "b", Kind: kv.OpDelete, Expect: kv.AnyRevision}); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 30 {
		commit(time.Duration(i%3) * time.Hour)
	}
	newest := kv.Revision(s.published.Load())
	// Delete the records that a missing log would have contained.
	b := s.engine.db.NewBatch()
	_ = b.Delete(logKey(newest-9), nil)
	_ = b.Delete(versionkey.Append(nil, "a", newest-9), nil)
	if err := s.engine.db.Apply(b, pebble.Sync); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("lacks revisions %d to %d", newest-9, newest-9)
	if _, err := Open(Config{Dir: "d", FS: mem, Retention: -1}); !errors.Is(err, ErrLostWrites) || !strings.Contains(err.Error(), want) {
		t.Fatalf("open: %v, want %q", err, want)
	}
	s = open(t, Config{Dir: "d", FS: mem, Retention: -1, AcceptLostWrites: true})
	if at := s.published.Load(); at < int64(newest)+restoreEpoch {
		t.Errorf("the store continues at revision %d, the newest was %d", at, newest)
	}
	if e, _, err := s.Get(t.Context(), "a", 0); err != nil || e == nil || e.Modified != newest {
		t.Errorf("a is %+v, %v; want revision %d", e, err, newest)
	}
}

// TestLostDatabase checks that Open fails if only the ACKNOWLEDGED file is left.
func TestLostDatabase(t *testing.T) {
	t.Parallel()
	mem := vfs.NewMem()
	s := open(t, Config{Dir: "d", FS: mem})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	names, err := mem.List("d")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if engineFile(name) {
			if err := mem.Remove(mem.PathJoin("d", name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := Open(Config{Dir: "d", FS: mem}); !errors.Is(err, kv.ErrCorrupt) {
		t.Errorf("open: %v", err)
	}
}

// TestAcceptWithoutLoss checks that AcceptLostWrites does not change an intact store.
func TestAcceptWithoutLoss(t *testing.T) {
	t.Parallel()
	mem := vfs.NewMem()
	for want := kv.Revision(firstRevision); want < firstRevision+3; want++ {
		s := open(t, Config{Dir: "d", FS: mem, AcceptLostWrites: true})
		if at, err := s.CurrentRevision(t.Context()); err != nil || at != want {
			t.Errorf("revision %d (%v), want %d", at, err, want)
		}
		if _, err := s.Commit(t.Context(), kv.Op{Key: "a", Expect: kv.AnyRevision}); err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestDecodeAcked(t *testing.T) {
	t.Parallel()
	raw := appendAcked(nil, 77)
	if rev, ok := decodeAcked(raw); rev != 77 || !ok {
		t.Errorf("decoded revision %d, %t, want 77, true", rev, ok)
	}
	for i := range raw {
		bad := bytes.Clone(raw)
		bad[i] ^= 1
		if rev, ok := decodeAcked(bad); ok {
			t.Errorf("byte %d damaged: %d", i, rev)
		}
		if rev, ok := decodeAcked(raw[:i]); ok {
			t.Errorf("%d bytes: %d", i, rev)
		}
	}
}
