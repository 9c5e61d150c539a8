package embedded

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"mainstay.dev/mainstay/internal/storage/kv"
	"mainstay.dev/mainstay/internal/storage/kv/pebblefs"
)

// quotaFS is a file system with a limited size. others is the number of bytes used by files outside the
// store, and reserved is the size of the reserve. GetDiskUsage overstates the free space by overstated bytes.
type quotaFS struct {
	vfs.FS
	size, others, reserved, overstated atomic.Int64
	dir                                string
}

func newQuotaFS(size int64) *quotaFS {
	q := &quotaFS{FS: vfs.NewCrashableMem(), dir: "d"}
	q.size.Store(size)
	return q
}

// free returns the number of free bytes.
func (q *quotaFS) free() int64 {
	left := q.size.Load() - q.others.Load() - q.reserved.Load()
	names, _ := q.List(q.dir)
	for _, name := range names {
		if info, err := q.Stat(q.PathJoin(q.dir, name)); err == nil {
			left -= info.Size()
		}
	}
	return left
}

// fill uses disk space until only left bytes are free.
func (q *quotaFS) fill(left int64) { q.others.Add(q.free() - left) }

func (q *quotaFS) file(f vfs.File, err error, name string) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	return &quotaFile{File: f, q: q, name: name}, nil
}

func (q *quotaFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := q.FS.Create(name, c)
	return q.file(f, err, name)
}

func (q *quotaFS) ReuseForWrite(oldname, newname string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := q.FS.ReuseForWrite(oldname, newname, c)
	return q.file(f, err, newname)
}

func (q *quotaFS) OpenReadWrite(name string, c vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	f, err := q.FS.OpenReadWrite(name, c, opts...)
	return q.file(f, err, name)
}

func (q *quotaFS) Remove(name string) error {
	if strings.HasSuffix(name, reserveFile) {
		q.reserved.Store(0)
	}
	return q.FS.Remove(name)
}

func (q *quotaFS) GetDiskUsage(string) (vfs.DiskUsage, error) {
	free := uint64(max(q.free()+q.overstated.Load(), 0))
	return vfs.DiskUsage{TotalBytes: uint64(q.size.Load()), AvailBytes: free}, nil
}

type quotaFile struct {
	vfs.File
	q    *quotaFS
	name string
}

func (f *quotaFile) Write(p []byte) (int, error) {
	if f.q.free() < int64(len(p)) {
		return 0, &errno{f.name, syscall.ENOSPC}
	}
	return f.File.Write(p)
}

func (f *quotaFile) Preallocate(_, length int64) error {
	if !strings.HasSuffix(f.name, reserveFile) {
		return nil
	}
	if f.q.free()+f.q.reserved.Load() < length {
		return &errno{f.name, syscall.EDQUOT}
	}
	f.q.reserved.Store(length)
	return nil
}

type errno struct {
	name string
	err  syscall.Errno
}

func (e *errno) Error() string { return e.name + ": " + e.err.Error() }
func (e *errno) Unwrap() error { return e.err }

// TestFullDisk checks that a store on a full disk accepts only deletions and compactions, and that
// it accepts all writes again when space is available.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	q := newQuotaFS(100 << 20)
	s := open(t, Config{Dir: "d", FS: q, Retention: -1})
	j := newJournal()
	for i := range 20 {
		if err := j.write(t, s, fmt.Sprintf("k%d", i), 10_000); err != nil {
			t.Fatal(err)
		}
	}
	q.fill(100_000)
	for i := 0; ; i++ {
		err := j.write(t, s, fmt.Sprintf("more%d", i), 10_000)
		if err != nil {
			break
		}
	}
	await(t, "deletions to be accepted while the disk is full", func() bool {
		_, err := s.Commit(t.Context(), kv.Op{Key: "none", Kind: kv.OpDelete, Expect: kv.AnyRevision}, kv.Op{Key: "k0", Kind: kv.OpDelete, Expect: kv.AnyRevision})
		if err != nil && !errors.Is(err, kv.ErrNoSpace) && !errors.Is(err, kv.ErrUnavailable) {
			t.Fatalf("delete: %v", err)
		}
		return err == nil
	})
	checkDeletionsOnly(t, s)
	checkCompacts(t, s)

	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	q.fill(20_000_000) // enough for the reserve only
	s = open(t, Config{Dir: "d", FS: q, Retention: -1})
	q.fill(0)
	if e, _, err := s.Get(t.Context(), "k5", 0); e == nil || err != nil {
		t.Errorf("get: %v, %v", e, err)
	}

	q.others.Store(0)
	await(t, "health", func() bool { return s.Health(t.Context()) == nil })
	if err := j.write(t, s, "after", 1_000_000); err != nil {
		t.Errorf("put: %v", err)
	}
	if q.reserved.Load() == 0 {
		t.Error("the reserve was not restored")
	}
}

// checkDeletionsOnly checks that puts are rejected, and that deletions, steps of deletions and checks are
// accepted.
func checkDeletionsOnly(t *testing.T, s *Store) {
	t.Helper()
	if err := s.Health(t.Context()); !errors.Is(err, kv.ErrNoSpace) {
		t.Errorf("health: %v", err)
	}
	for name, op := range map[string]kv.Op{"create": {Key: "new"}, "update": {Key: "k1", Expect: kv.AnyRevision}} {
		if _, err := s.Commit(t.Context(), op); !errors.Is(err, kv.ErrNoSpace) || strings.Contains(err.Error(), "corrupt") {
			t.Errorf("%s: error %v, want %v", name, err, kv.ErrNoSpace)
		}
	}
	for name, op := range map[string]kv.Op{
		"a step of a deletion": {Key: "k1", Value: []byte("x"), Expect: kv.AnyRevision, Removing: true},
		"a deletion":           {Key: "k2", Kind: kv.OpDelete, Expect: kv.AnyRevision},
		"a check":              {Key: "k3", Kind: kv.OpCheck, Expect: kv.AnyRevision},
	} {
		if res, err := s.Commit(t.Context(), op); err != nil || !res.Committed {
			t.Errorf("commit %s: %+v, error %v", name, res, err)
		}
	}
}

func checkCompacts(t *testing.T, s *Store) {
	t.Helper()
	at, err := s.CurrentRevision(t.Context())
	if err == nil {
		err = s.Compact(t.Context(), at)
	}
	if compacted, _ := s.CompactedRevision(t.Context()); err != nil || compacted != at {
		t.Errorf("compacted to %d of %d: %v", compacted, at, err)
	}
}

// TestIncompleteTable checks that the store recovers from a compaction that fills the disk.
func TestIncompleteTable(t *testing.T) {
	t.Parallel()
	q := newQuotaFS(100 << 20)
	s := open(t, Config{Dir: "d", FS: q, Retention: -1})
	value := make([]byte, 100_000)
	random := rand.NewChaCha8([32]byte{})
	write := func(keys ...int) {
		t.Helper()
		for _, k := range keys {
			_, _ = random.Read(value)
			if _, err := s.Commit(t.Context(), kv.Op{Key: fmt.Sprintf("k%03d", k), Value: value, Expect: kv.AnyRevision}); err != nil {
				t.Fatal(err)
			}
		}
	}
	for k := range 200 {
		write(k)
	}
	engine := s.engine
	if err := engine.db.Compact(t.Context(), []byte{0}, []byte{0xff}, false); err != nil {
		t.Fatal(err)
	}
	write(0, 199) // the key range of this table overlaps all others
	if err := engine.db.Flush(); err != nil {
		t.Fatal(err)
	}
	await(t, "the removal of compacted tables", func() bool { return engine.db.Metrics().Table.ZombieCount == 0 })
	s.disk.reserve.release()
	q.overstated.Store(100 << 20) // compactions are not paused
	q.fill(4 << 20)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() { _ = engine.db.Compact(ctx, []byte{0}, []byte{0xff}, false) }()
	await(t, "a full disk", func() bool { return pebblefs.IsFull(engine.guard.Failure()) })
	q.overstated.Store(0)
	await(t, "deletions to be accepted", func() bool {
		_, err := s.Commit(t.Context(), kv.Op{Key: "k000", Kind: kv.OpDelete, Expect: kv.AnyRevision})
		return err == nil
	})
	if e, _, err := s.Get(t.Context(), "k199", 0); err != nil || e == nil || !bytes.Equal(e.Value, value) {
		t.Errorf("get: entry %t, %v", e != nil, err)
	}
}

// TestStartOnFullDisk checks that a store opens on a disk without a free byte and without its reserve. The
// store serves reads immediately, and accepts writes when space is available.
func TestStartOnFullDisk(t *testing.T) {
	t.Parallel()
	for _, crashed := range []bool{false, true} {
		t.Run(fmt.Sprintf("crashed=%t", crashed), func(t *testing.T) {
			t.Parallel()
			q := newQuotaFS(100 << 20)
			s := open(t, Config{Dir: "d", FS: q, Retention: -1})
			j := newJournal()
			for i := range 100 {
				if err := j.write(t, s, fmt.Sprintf("k%d", i%20), 100_000); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := s.Commit(t.Context(), kv.Op{Key: "short", Value: []byte("0:"), TTL: time.Hour}); err != nil {
				t.Fatal(err)
			}
			if crashed {
				left := newQuotaFS(100 << 20)
				left.FS = q.FS.(*vfs.MemFS).CrashClone(vfs.CrashCloneCfg{})
				q = left
			} else if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			if err := q.Remove("d/" + reserveFile); err != nil {
				t.Fatal(err)
			}
			q.fill(0)

			s = open(t, Config{Dir: "d", FS: q, Retention: -1})
			if err := s.Health(t.Context()); !errors.Is(err, kv.ErrNoSpace) || strings.Contains(err.Error(), "damaged") {
				t.Errorf("health: %v", err)
			}
			j.check(t, s, j.copy())
			for name, op := range map[string]kv.Op{"create": {Key: "new"}, "delete": {Key: "k1", Kind: kv.OpDelete, Expect: kv.AnyRevision}} {
				if _, err := s.Commit(t.Context(), op); !errors.Is(err, kv.ErrNoSpace) {
					t.Errorf("%s: error %v, want %v", name, err, kv.ErrNoSpace)
				}
			}
			w, err := s.Watch(t.Context(), "", "", 0)
			if err != nil {
				t.Fatal(err)
			}
			defer w.Stop()
			q.others.Store(0)
			await(t, "health", func() bool { return s.Health(t.Context()) == nil })
			if err := j.write(t, s, "after", 1_000); err != nil {
				t.Errorf("put: %v", err)
			}
			for b := range w.Batches() { // the watch is still open
				if b.Revision >= kv.Revision(s.published.Load()) {
					break
				}
			}
			checkHistory(t, s)
		})
	}
}

// TestNewStoreOnFullDisk checks that a new store does not open on a full disk, because it has no
// data to read, and that it opens when space is available.
func TestNewStoreOnFullDisk(t *testing.T) {
	t.Parallel()
	q := newQuotaFS(100 << 20)
	q.fill(10)
	if _, err := Open(Config{Dir: "d", FS: q}); !errors.Is(err, kv.ErrNoSpace) {
		t.Fatalf("open: %v", err)
	}
	q.others.Store(0)
	s := open(t, Config{Dir: "d", FS: q})
	if err := s.Health(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestClaim checks that a claim survives a power failure, and that a store can be created in a claimed
// directory.
func TestClaim(t *testing.T) {
	t.Parallel()
	mem := vfs.NewCrashableMem()
	if err := claim(Config{Dir: "/data/store", FS: mem}); err != nil {
		t.Fatal(err)
	}
	after := mem.CrashClone(vfs.CrashCloneCfg{})
	if _, err := after.Stat("/data/store/" + creatingFile); err != nil {
		t.Errorf("the claim was lost: %v", err)
	}
	s := open(t, Config{Dir: "/data/store", FS: after})
	if err := s.Health(t.Context()); err != nil {
		t.Error(err)
	}
}
