package embedded

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"mainstay.dev/mainstay/internal/simulation"
	"mainstay.dev/mainstay/internal/storage/kv"
	"mainstay.dev/mainstay/internal/storage/kv/pebblefs"
	"mainstay.dev/mainstay/internal/storage/kv/versionkey"
)

func put(t testing.TB, s *Store, key, value string) kv.Revision {
	t.Helper()
	res, err := s.Commit(t.Context(), kv.Op{Key: key, Value: []byte(value), Expect: kv.AnyRevision})
	if err != nil {
		t.Fatalf("put %s: %v", key, err)
	}
	return res.Revision
}

func remove(t testing.TB, s *Store, key string) kv.Revision {
	t.Helper()
	res, err := s.Commit(t.Context(), kv.Op{Key: key, Kind: kv.OpDelete, Expect: kv.AnyRevision})
	if err != nil {
		t.Fatalf("delete %s: %v", key, err)
	}
	return res.Revision
}

func entries(t testing.TB, s *Store, at kv.Revision) kv.RangeResult {
	t.Helper()
	res, err := s.Range(t.Context(), kv.RangeRequest{At: at})
	if err != nil {
		t.Fatalf("range at %d: %v", at, err)
	}
	return res
}

func closeStore(t testing.TB, s *Store) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Fatalf("close: %v", err)
	}
}

func TestReopen(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, Config{Dir: dir})
	var revs []kv.Revision
	for i := range 300 {
		revs = append(revs, put(t, s, fmt.Sprintf("k%d", i%50), strings.Repeat("v", i*20)))
		if i%7 == 0 {
			revs = append(revs, remove(t, s, fmt.Sprintf("k%d", i%50)))
		}
	}
	if err := s.Compact(t.Context(), revs[100]); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Commit(t.Context(), kv.Op{Key: "expires", TTL: 1 * time.Second}); err != nil {
		t.Fatal(err)
	}
	last := put(t, s, "last", "x")
	want := map[kv.Revision]kv.RangeResult{}
	for _, at := range append(revs[100:], last) {
		want[at] = entries(t, s, at)
	}
	closeStore(t, s)

	s = open(t, Config{Dir: dir})
	for at, res := range want {
		if d := cmp.Diff(res, entries(t, s, at), cmp.Comparer(bytes.Equal)); d != "" {
			t.Fatalf("at revision %d (-before +after):\n%s", at, d)
		}
	}
	if _, _, err := s.Get(t.Context(), "k1", revs[99]); !errors.Is(err, kv.ErrCompacted) {
		t.Errorf("read at a compacted revision: %v", err)
	}
	checkHistory(t, s)
	await(t, "expiry", func() bool {
		e, _, err := s.Get(t.Context(), "expires", 0)
		return err == nil && e == nil
	})
	if rev := put(t, s, "more", "x"); rev <= last {
		t.Errorf("revision %d after %d", rev, last)
	}
}

func TestInUse(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, Config{Dir: dir})
	want := "data directory " + dir + " is in use by another process"
	if _, err := Open(Config{Dir: dir}); err == nil || err.Error() != want {
		t.Errorf("second open: %v, want %s", err, want)
	}
	// Open the store in another process.
	cmd := exec.Command(os.Args[0], "-test.run=TestHelperOpens")
	cmd.Env = append(os.Environ(), "EMBEDDED_TEST_DIR="+dir)
	if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), want) {
		t.Errorf("open by another process: %v\n%s", err, out)
	}
	put(t, s, "a", "1")
	closeStore(t, s)
	closeStore(t, open(t, Config{Dir: dir}))
}

// TestHelperOpens opens a store in the child process of TestInUse.
func TestHelperOpens(t *testing.T) {
	dir := os.Getenv("EMBEDDED_TEST_DIR")
	if dir == "" {
		t.Skip("runs only in the child process of TestInUse")
	}
	if _, err := Open(Config{Dir: dir}); err != nil {
		t.Fatal(err)
	}
}

func TestUnwritableDirectory(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{file, filepath.Join(file, "sub")} {
		if _, err := Open(Config{Dir: dir}); err == nil || !strings.Contains(err.Error(), dir) {
			t.Errorf("open of %s: %v", dir, err)
		}
	}
	if os.Geteuid() == 0 {
		return // root may write everywhere
	}
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o500); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(Config{Dir: dir}); err == nil || !strings.Contains(err.Error(), "not writable") {
		t.Errorf("open of an unwritable directory: %v", err)
	}
}

func TestConfig(t *testing.T) {
	t.Parallel()
	for _, cfg := range []Config{{}, {InMemory: true, FS: vfs.NewMem()}} {
		if _, err := Open(cfg); err == nil {
			t.Errorf("open with %+v", cfg)
		}
	}
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	r := prometheus.NewRegistry()
	s := open(t, Config{InMemory: true, Registerer: r})
	put(t, s, "a", "1")
	families, err := r.Gather()
	if err != nil || len(families) == 0 {
		t.Fatalf("gather: %d families, %v", len(families), err)
	}
	if _, err := Open(Config{InMemory: true, Registerer: r}); err == nil {
		t.Error("a second store could register its metrics")
	}
	closeStore(t, s)
	closeStore(t, open(t, Config{InMemory: true, Registerer: r}))
}

func TestNewerFormat(t *testing.T) {
	t.Parallel()
	mem := vfs.NewMem()
	s := open(t, Config{Dir: "d", FS: mem})
	if err := s.engine.db.Set([]byte(metaFormat), revisionValue(formatVersion+1), pebble.Sync); err != nil {
		t.Fatal(err)
	}
	closeStore(t, s)
	_, err := Open(Config{Dir: "d", FS: mem})
	if err == nil || !strings.Contains(err.Error(), "format 2") || errors.Is(err, kv.ErrCorrupt) {
		t.Errorf("open of a newer format: %v", err)
	}
}

// filled creates a store with tables, a log and a manifest, and closes it.
func filled(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	s := open(t, Config{Dir: dir})
	for i := range 3 {
		for j := range 200 {
			put(t, s, fmt.Sprintf("k%d/%d", i, j), strings.Repeat(fmt.Sprint(j), 300))
		}
		if i < 2 {
			if err := s.engine.db.Flush(); err != nil {
				t.Fatal(err)
			}
		}
	}
	closeStore(t, s)
	return dir
}

// TestCorruptFiles damages one kind of file at a time. The store must report the damage, name the
// file and recommend a remedy. It must not return wrong data or panic.
func TestCorruptFiles(t *testing.T) {
	t.Parallel()
	flip := func(t *testing.T, name string) {
		raw, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for i := len(raw) / 3; i < len(raw)/3+64 && i < len(raw); i++ {
			raw[i] ^= 0xff
		}
		if err := os.WriteFile(name, raw, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	truncate := func(t *testing.T, name string) {
		info, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(name, info.Size()/2); err != nil {
			t.Fatal(err)
		}
	}
	drop := func(t *testing.T, name string) {
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name, glob string
		damage     func(*testing.T, string)
	}{
		{"TableFlipped", "*.sst", flip},
		{"TableTruncated", "*.sst", truncate},
		{"TableMissing", "*.sst", drop},
		{"LogFlipped", "*.log", flip},
		{"ManifestFlipped", "MANIFEST-*", flip},
		{"ManifestMissing", "MANIFEST-*", drop},
		{"ManifestMarkerMissing", "marker.manifest.*", drop},
		{"FormatMarkerMissing", "marker.format-version.*", drop},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := filled(t)
			names, err := filepath.Glob(filepath.Join(dir, c.glob))
			if err != nil || len(names) == 0 {
				t.Fatalf("no %s: %v", c.glob, err)
			}
			for _, name := range names {
				c.damage(t, name)
			}
			err = useAll(t, dir)
			if !errors.Is(err, kv.ErrCorrupt) {
				t.Fatalf("error %v", err)
			}
			t.Log(err)
			// A damaged manifest can have the same effect as lost writes.
			advice := "restore the data directory from a snapshot"
			if errors.Is(err, ErrLostWrites) {
				advice = "restore a snapshot into another directory"
			}
			if !strings.Contains(err.Error(), advice) || !strings.Contains(err.Error(), dir) {
				t.Errorf("the error does not contain the file and the remedy: %v", err)
			}
		})
	}
}

// useAll opens a store and reads all entries.
func useAll(t *testing.T, dir string) error {
	s, err := Open(Config{Dir: dir})
	if err != nil {
		return err
	}
	defer s.Close()
	res, err := s.Range(t.Context(), kv.RangeRequest{})
	if err != nil {
		return err
	}
	if len(res.Entries) != 600 {
		t.Fatalf("%d entries of 600, and no error", len(res.Entries))
	}
	for _, e := range res.Entries {
		if _, _, err := s.Get(t.Context(), e.Key, 0); err != nil {
			return err
		}
	}
	return nil
}

// TestTornTail checks that an incomplete record at the end of the log is ignored. It was not
// acknowledged.
func TestTornTail(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, Config{Dir: dir})
	for i := range 50 {
		put(t, s, fmt.Sprint(i), "x")
	}
	closeStore(t, s)
	logs, err := filepath.Glob(filepath.Join(dir, "*.log"))
	if err != nil || len(logs) == 0 {
		t.Fatal(logs, err)
	}
	f, err := os.OpenFile(logs[len(logs)-1], os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write([]byte("half a record of a write that was never acknowledged")); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, Config{Dir: dir})
	if n := len(entries(t, s, 0).Entries); n != 50 {
		t.Errorf("%d entries of 50", n)
	}
}

func TestUnfinishedCreation(t *testing.T) {
	t.Parallel()
	dir := filled(t)
	// The file marks a store whose creation was interrupted.
	if err := os.WriteFile(filepath.Join(dir, creatingFile), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s := open(t, Config{Dir: dir})
	if n := len(entries(t, s, 0).Entries); n != 0 {
		t.Errorf("a partially created store has %d entries", n)
	}
	put(t, s, "a", "1")
	closeStore(t, s)
	if n := len(entries(t, open(t, Config{Dir: dir}), 0).Entries); n != 1 {
		t.Errorf("%d entries of 1", n)
	}
}

// TestRewriteLoad checks that history older than the retention is removed from disk.
func TestRewriteLoad(t *testing.T) {
	t.Parallel()
	s := open(t, Config{InMemory: true, Retention: 100 * time.Millisecond})
	value := strings.Repeat("v", 10_000)
	const commits = 4000 // 40 MB
	for i := range commits {
		put(t, s, fmt.Sprintf("k%d", i%10), value)
	}
	last := kv.Revision(s.published.Load())
	await(t, "compaction", func() bool { return kv.Revision(s.compacted.Load()) == last })
	await(t, "space to be freed", func() bool { return s.diskBytes() < 24<<20 })
	// The remaining records are ten versions, the version that the last commit replaced, its log record, and
	// the meta keys.
	await(t, "history to be deleted", func() bool { return countRecords(t, s) <= 20 })
	checkHistory(t, s)
}

// countRecords returns the number of records in the engine.
func countRecords(t *testing.T, s *Store) (n int) {
	it, err := s.engine.db.NewIter(nil)
	if err != nil {
		t.Fatal(err)
	}
	for ok := it.First(); ok; ok = it.Next() {
		n++
	}
	if err := it.Close(); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestSnapshot(t *testing.T) {
	t.Parallel()
	clock := simulation.New(simulation.Config{})
	s := open(t, Config{InMemory: true, Simulation: clock})
	for i := range 3000 {
		put(t, s, fmt.Sprintf("k%04d", i%2000), strings.Repeat("v", i))
	}
	for i := range 100 {
		remove(t, s, fmt.Sprintf("k%04d", i*3))
	}
	put(t, s, "empty", "")
	if _, err := s.Commit(t.Context(), kv.Op{Key: "short", TTL: 10 * time.Minute}, kv.Op{Key: "long", TTL: time.Hour}); err != nil {
		t.Fatal(err)
	}
	want := entries(t, s, 0)
	// The store is written to and compacted while the snapshot is taken.
	var buf bytes.Buffer
	at, err := s.Snapshot(t.Context(), &hookWriter{w: &buf, meddle: func() {
		rev := put(t, s, "k1999", "later")
		if err := s.Compact(t.Context(), rev); err != nil {
			t.Error(err)
		}
	}})
	if err != nil || at != want.Revision {
		t.Fatalf("snapshot at %d, %v; want %d", at, err, want.Revision)
	}
	dir := filepath.Join(t.TempDir(), "restored")
	if err := Restore(bytes.NewReader(buf.Bytes()), dir); err != nil {
		t.Fatal(err)
	}
	restored := open(t, Config{Dir: dir, Simulation: clock})
	got := entries(t, restored, 0)
	if got.Revision < want.Revision+restoreEpoch || got.Revision%restoreEpoch != 0 {
		t.Errorf("restored revision %d after %d", got.Revision, want.Revision)
	}
	want.Revision = got.Revision
	if d := cmp.Diff(want, got, cmp.Comparer(bytes.Equal)); d != "" {
		t.Fatalf("restored (-want +got):\n%s", d)
	}
	if _, err := restored.Watch(t.Context(), "", "", at); !errors.Is(err, kv.ErrCompacted) {
		t.Errorf("watch from before the restoration: %v", err)
	}
	clock.Advance(20 * time.Minute)
	await(t, "expiry", func() bool { e, _, err := restored.Get(t.Context(), "short", 0); return err == nil && e == nil })
	put(t, restored, "k1999", "new")
	checkHistory(t, restored)
	if err := Restore(bytes.NewReader(buf.Bytes()), dir); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("restore over an open store: %v", err)
	}
	closeStore(t, restored)
	if err := Restore(bytes.NewReader(buf.Bytes()), dir); err == nil || !strings.Contains(err.Error(), "not empty") {
		t.Errorf("restore over a store: %v", err)
	}
}

// hookWriter calls a function before each write.
type hookWriter struct {
	w      *bytes.Buffer
	meddle func()
}

func (m *hookWriter) Write(p []byte) (int, error) {
	m.meddle()
	return m.w.Write(p)
}

func smallSnapshot(t testing.TB) []byte {
	s := open(t, Config{InMemory: true})
	put(t, s, "a", "1")
	put(t, s, "b", "some value")
	if _, err := s.Commit(t.Context(), kv.Op{Key: "c", TTL: time.Hour, Value: []byte("x")}); err != nil {
		t.Fatal(err)
	}
	var buf bytes.Buffer
	if _, err := s.Snapshot(t.Context(), &buf); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

// readSnapshot reads a snapshot to its end and returns the number of its records.
func readSnapshot(raw []byte) (n int, err error) {
	sr, err := newSnapshotReader(bytes.NewReader(raw))
	if err != nil {
		return 0, err
	}
	for _, err := range sr.versions() {
		if err != nil {
			return n, err
		}
		n++
	}
	return n + len(sr.pins), nil
}

func TestDamagedSnapshot(t *testing.T) {
	t.Parallel()
	raw := smallSnapshot(t)
	checkDamaged(t, raw, 3)
	// The directory is left empty, so that another snapshot can be restored.
	dir := t.TempDir()
	if err := Restore(bytes.NewReader(raw[:len(raw)-1]), dir); !errors.Is(err, kv.ErrCorrupt) {
		t.Fatalf("restore of a damaged snapshot: %v", err)
	}
	if err := Restore(bytes.NewReader(raw), dir); err != nil {
		t.Fatalf("restore after a failed restore: %v", err)
	}
	if n := len(entries(t, open(t, Config{Dir: dir}), 0).Entries); n != 3 {
		t.Errorf("%d entries of 3", n)
	}
}

// checkDamaged checks that a snapshot has the given number of records, and that each truncation and each
// flipped bit of the snapshot is detected.
func checkDamaged(t *testing.T, raw []byte, records int) {
	t.Helper()
	if n, err := readSnapshot(raw); n != records || err != nil {
		t.Fatalf("%d records, %v", n, err)
	}
	for n := range raw {
		if _, err := readSnapshot(raw[:n]); err == nil {
			t.Fatalf("a snapshot cut off after %d of %d bytes was accepted", n, len(raw))
		}
	}
	for bit := range len(raw) * 8 {
		damaged := bytes.Clone(raw)
		damaged[bit/8] ^= 1 << (bit % 8)
		if _, err := readSnapshot(damaged); err == nil {
			t.Fatalf("a snapshot with bit %d flipped was accepted", bit)
		}
	}
}

// TestRestoreInvalid checks that Restore rejects snapshots with valid checksums and invalid
// content.
func TestRestoreInvalid(t *testing.T) {
	t.Parallel()
	record := func(key string) []byte {
		return appendSnapshotRecord(nil, version{entry: &kv.Entry{Key: key, Value: []byte("v"), Created: 1, Modified: 1}, revision: 1})
	}
	for name, test := range map[string]struct {
		revision kv.Revision
		keys     []string
		want     string
	}{
		"greatest revision": {math.MaxInt64, []string{"a"}, "greatest that a store can be restored from"},
		"duplicate key":     {1, []string{"a", "a"}, `key "a" of the snapshot comes after "a"`},
		"wrong order":       {1, []string{"b", "a"}, `key "a" of the snapshot comes after "b"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var snapshot bytes.Buffer
			w := newSnapshotWriter(&snapshot, test.revision, false)
			for _, key := range test.keys {
				_ = w.records(record(key))
			}
			if err := w.trailer(); err != nil {
				t.Fatal(err)
			}
			dir := t.TempDir()
			if err := Restore(&snapshot, dir); !errors.Is(err, kv.ErrCorrupt) || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%v; want %q", err, test.want)
			}
			if err := Restore(bytes.NewReader(smallSnapshot(t)), dir); err != nil {
				t.Errorf("another restore: %v", err)
			}
		})
	}
}

// TestFileModes checks that only the owner can access the files of a store, including files that an
// earlier version created with other modes.
func TestFileModes(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("Windows has no file modes")
	}
	dir := filled(t)
	if err := os.Chmod(filepath.Join(dir, "LOCK"), 0o644); err != nil {
		t.Fatal(err)
	}
	s := open(t, Config{Dir: dir})
	if err := s.Purge(t.Context()); err != nil {
		t.Fatal(err)
	}
	files, err := os.ReadDir(dir)
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		info, err := file.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue // removed since ReadDir
		}
		if err != nil {
			t.Fatal(err)
		}
		if mode := info.Mode().Perm(); mode != 0o600 {
			t.Errorf("file %s: mode %v, want 0600", file.Name(), mode)
		}
	}
}

func TestUnfinishedRestore(t *testing.T) {
	t.Parallel()
	dir := filled(t)
	if err := os.WriteFile(filepath.Join(dir, restoringFile), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(Config{Dir: dir}); err == nil || !strings.Contains(err.Error(), "incomplete restore") {
		t.Fatalf("open: %v", err)
	}
	if err := Restore(bytes.NewReader(smallSnapshot(t)), dir); err != nil {
		t.Fatalf("restore again: %v", err)
	}
	if n := len(entries(t, open(t, Config{Dir: dir}), 0).Entries); n != 3 {
		t.Errorf("%d entries of 3", n)
	}
}

func FuzzSnapshot(f *testing.F) {
	f.Add(smallSnapshot(f))
	f.Fuzz(func(t *testing.T, raw []byte) { _, _ = readSnapshot(raw) })
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte("ka\x00\xff\xff\xff\xff\xff\xff\xff\xfe"), []byte{0, 0, 'x'})
	f.Add(logKey(5), []byte{0, 3, 1, 'a'})
	f.Fuzz(func(t *testing.T, key, value []byte) {
		_, _, _ = versionkey.Split(key)
		_, _ = decodeVersion("a", 7, value)
		_, _ = decodeExpiry(key, value)
		_, _ = logRevision(key)
		for rest, err := value, error(nil); len(rest) > 0 && err == nil; {
			_, rest, err = decodeChange(rest)
		}
	})
}

func TestFormat(t *testing.T) {
	t.Parallel()
	for _, v := range []version{
		{entry: &kv.Entry{Key: "a", Value: []byte("x"), Created: 3, Modified: 3}, revision: 3},
		{entry: &kv.Entry{Key: "a\xff\x01", Value: []byte{}, Created: 1, Modified: 1 << 40}, revision: 1 << 40},
		{entry: &kv.Entry{Key: "/x", Value: make([]byte, 1000), Created: 200, Modified: 900}, revision: 900, expires: 1 << 33},
	} {
		db, err := pebble.Open("", &pebble.Options{FS: vfs.NewMem(), Comparer: versionkey.NewComparer(), Logger: pebblefs.Logger{Log: slog.New(slog.DiscardHandler)}})
		if err != nil {
			t.Fatal(err)
		}
		b := db.NewBatch()
		putVersion(b, v.entry, v.expires)
		if err := db.Apply(b, nil); err != nil {
			t.Fatal(err)
		}
		it, err := db.NewIter(nil)
		if err != nil || !it.First() {
			t.Fatal(err)
		}
		key, rev, err := versionkey.Split(it.Key())
		if err != nil || string(key) != v.entry.Key || rev != v.revision {
			t.Errorf("key %q at %d, %v", key, rev, err)
		}
		got, err := decodeVersion(v.entry.Key, rev, it.Value())
		if err != nil || got.expires != v.expires || got.revision != v.revision {
			t.Errorf("decoded version %+v, error %v", got, err)
		}
		if d := cmp.Diff(v.entry, got.entry); d != "" {
			t.Error(d)
		}
		if err := errors.Join(it.Close(), db.Close()); err != nil {
			t.Fatal(err)
		}
	}
}

// TestComparer checks Pebble's two requirements for a comparer: it orders keys bytewise, and it orders keys
// by prefix first. Both are possible only because no prefix is the beginning of another prefix.
func TestComparer(t *testing.T) {
	t.Parallel()
	c := versionkey.NewComparer()
	var keys [][]byte
	for _, key := range []string{"a", "a\x01", "a\xff", "ab", "b", "\xff"} {
		for _, rev := range []kv.Revision{1, 2, 1 << 40} {
			keys = append(keys, versionkey.Append(nil, key, rev))
		}
	}
	keys = append(keys, []byte(metaFormat), logKey(1), logKey(256), expiryKey(1, "a"), expiryKey(1, "ab"))
	for _, a := range keys {
		for _, b := range keys {
			pa, pb := a[:c.Split(a)], b[:c.Split(b)]
			want := bytes.Compare(pa, pb)
			if want == 0 {
				want = bytes.Compare(a[len(pa):], b[len(pb):])
			}
			if got := c.Compare(a, b); got != want {
				t.Errorf("compare %q with %q: %d, by prefix and suffix %d", a, b, got, want)
			}
		}
		prefix := a[:c.Split(a)]
		after := c.ImmediateSuccessor(nil, prefix)
		if c.Compare(prefix, after) >= 0 || c.Split(after) != len(after) {
			t.Errorf("successor of prefix %q is %q", prefix, after)
		}
	}
}
