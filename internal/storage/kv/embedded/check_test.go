package embedded

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/google/go-cmp/cmp"

	"mainstay.dev/mainstay/internal/storage/kv"
	"mainstay.dev/mainstay/internal/storage/kv/history"
	"mainstay.dev/mainstay/internal/storage/kv/versionkey"
)

// checkable creates a store with entries of all kinds and closes it.
func checkable(t *testing.T) (dir string, want Report) {
	t.Helper()
	dir = t.TempDir()
	s := open(t, Config{Dir: dir, Retention: -1})
	for i := range 200 {
		op := kv.Op{Key: fmt.Sprintf("/a/%03d", i%50), Value: []byte("12345678"), Expect: kv.AnyRevision}
		if i%50 == 7 {
			op.TTL = time.Hour
		}
		if i%50 == 8 && i < 100 {
			op = kv.Op{Key: op.Key, Kind: kv.OpDelete, Expect: kv.AnyRevision}
		}
		if i == 120 {
			if err := s.Compact(t.Context(), kv.Revision(s.published.Load())); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := s.Commit(t.Context(), op); err != nil {
			t.Fatal(err)
		}
	}
	want = Report{Format: formatVersion, Revision: kv.Revision(s.published.Load()), Compacted: kv.Revision(s.compacted.Load()), Keys: 50, Expiring: 1}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return dir, want
}

func TestCheck(t *testing.T) {
	t.Parallel()
	dir, want := checkable(t)
	for range 2 { // a check does not modify the store
		got, err := Check(t.Context(), dir, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got.Versions < got.Keys || got.Bytes != 8*got.Versions || got.Commits == 0 || got.Marks == 0 {
			t.Errorf("report: %+v", got)
		}
		got.Versions, got.Bytes, got.Commits, got.Marks = 0, 0, 0, 0
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("report (-want +got):\n%s", d)
		}
	}
	if _, err := Check(t.Context(), filepath.Join(dir, "none"), nil); !errors.Is(err, ErrNoStore) {
		t.Errorf("check of a missing directory: %v", err)
	}
	open(t, Config{Dir: dir})
	if _, err := Check(t.Context(), dir, nil); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("check of a store in use: %v", err)
	}
}

// TestCheckInvariants violates one invariant of the format at a time.
func TestCheckInvariants(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		damage  func(*pebble.Batch, Report)
		wantErr string
	}{
		"a version after the newest": {func(b *pebble.Batch, r Report) {
			_ = b.Set(versionkey.Append(nil, "/a/000", r.Revision+5), []byte{0, 0, 'x'}, nil)
		}, "the newest being"},
		"an undecodable version": {func(b *pebble.Batch, r Report) {
			_ = b.Set(versionkey.Append(nil, "/a/000", r.Revision), []byte{0}, nil)
		}, "malformed version"},
		"a version without a commit": {func(b *pebble.Batch, r Report) {
			_ = b.Set(versionkey.Append(nil, "/b", r.Revision), []byte{0, 0, 'x'}, nil)
		}, "the change log names"},
		"a wrong creation revision": {func(b *pebble.Batch, r Report) {
			_ = b.Set(versionkey.Append(nil, "/a/049", r.Revision), []byte{0, 3, 'x'}, nil)
		}, "was created at"},
		"a missing version": {func(b *pebble.Batch, r Report) {
			_ = b.Delete(versionkey.Append(nil, "/a/049", r.Revision), nil)
		}, "which is missing"},
		"an undecodable log record": {func(b *pebble.Batch, r Report) { _ = b.Set(logKey(r.Revision), []byte{9}, nil) }, "malformed change log"},
		"a version changed to a deletion": {func(b *pebble.Batch, r Report) {
			_ = b.Set(versionkey.Append(nil, "/a/049", r.Revision), deletedVersion(), nil)
		}, "differ about its deletion"},
		"an expiry of a missing key": {func(b *pebble.Batch, r Report) {
			_ = b.Set(expiryKey(1, "/none"), revisionValue(1), nil)
		}, "the index has 2 keys"},
		"a missing expiry": {func(b *pebble.Batch, r Report) {
			_ = b.DeleteRange([]byte{prefixExpiry}, []byte{prefixExpiry + 1}, nil)
		}, "the index of expirations does not contain it"},
		"trimmed beyond the newest": {func(b *pebble.Batch, r Report) {
			_ = b.Set([]byte(metaTrimmed), revisionValue(r.Revision+1), nil)
		}, "trimmed to"},
		"an undecodable mark": {func(b *pebble.Batch, r Report) { _ = b.Set(markKey(r.Revision), []byte("torn"), nil) }, "malformed mark"},
		"a mark after the newest revision": {func(b *pebble.Batch, r Report) {
			_ = b.Set(markKey(r.Revision+1), markValue(history.Mark{Time: time.Now(), Uptime: time.Hour}), nil)
		}, "the newest being"},
		"a mark of an earlier uptime": {func(b *pebble.Batch, r Report) {
			_ = b.Set(markKey(r.Revision-1), markValue(history.Mark{Time: time.Now(), Uptime: time.Hour}), nil)
		}, "at an uptime of"},
		"an impossible uptime": {func(b *pebble.Batch, r Report) { _ = b.Set([]byte(metaUptime), uintValue(1<<62), nil) }, "an uptime of"},
		"another format":       {func(b *pebble.Batch, r Report) { _ = b.Set([]byte(metaFormat), revisionValue(99), nil) }, "has format 99"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, report := checkable(t)
			s := open(t, Config{Dir: dir, Retention: -1})
			b := s.engine.db.NewBatch()
			tt.damage(b, report)
			if err := s.engine.db.Apply(b, pebble.Sync); err != nil {
				t.Fatal(err)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			_, err := Check(t.Context(), dir, nil)
			if err == nil || !strings.Contains(err.Error(), tt.wantErr) {
				t.Errorf("%v, want %q", err, tt.wantErr)
			}
		})
	}
}

// TestCheckDamage flips a byte in each table in turn.
func TestCheckDamage(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, Config{Dir: dir, Retention: -1})
	fill(t, s, 3000)
	if err := s.engine.db.Flush(); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	tables, err := filepath.Glob(filepath.Join(dir, "*.sst"))
	if err != nil || len(tables) == 0 {
		t.Fatal(tables, err)
	}
	for _, table := range tables {
		raw, err := os.ReadFile(table)
		if err != nil {
			t.Fatal(err)
		}
		for _, at := range []int{len(raw) / 3, len(raw) / 2} {
			bad := bytes.Clone(raw)
			bad[at] ^= 0x40
			if err := os.WriteFile(table, bad, 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := Check(t.Context(), dir, nil); !errors.Is(err, kv.ErrCorrupt) {
				t.Errorf("byte %d of %s: %v", at, filepath.Base(table), err)
			}
		}
		if err := os.WriteFile(table, raw, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := Check(t.Context(), dir, nil); err != nil {
		t.Errorf("check of the repaired store: %v", err)
	}
}

// TestSnapshotWriter checks that a SnapshotWriter writes the same bytes as Snapshot.
func TestSnapshotWriter(t *testing.T) {
	t.Parallel()
	s := open(t, Config{InMemory: true})
	for i := range 30 {
		if _, err := s.Commit(t.Context(), kv.Op{Key: fmt.Sprint(i), Value: []byte("v"), TTL: time.Duration(i%2) * time.Hour}); err != nil {
			t.Fatal(err)
		}
	}
	var first, second bytes.Buffer
	if _, err := s.Snapshot(t.Context(), &first); err != nil {
		t.Fatal(err)
	}
	var sw *SnapshotWriter
	info, err := ReadSnapshot(bytes.NewReader(first.Bytes()), SnapshotReader{
		Begin:  func(at kv.Revision) (err error) { sw, err = NewSnapshotWriter(&second, at); return err },
		Record: func(r Record) error { return sw.Put(r) },
	})
	if err != nil || info.Keys != 30 {
		t.Fatal(info, err)
	}
	if sw.Put(Record{Entry: kv.Entry{Key: "0", Created: 1, Modified: 1}}) == nil || sw.Put(Record{Entry: kv.Entry{Key: "z\x00", Created: 1, Modified: 1}}) == nil {
		t.Error("a record out of order or with an invalid key was accepted")
	}
	if err := sw.Close(); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(first.Bytes(), second.Bytes()) {
		t.Error("the two snapshots differ")
	}
}
