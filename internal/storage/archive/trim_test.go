package archive

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"mainstay.dev/mainstay/internal/storage/kv"
	"mainstay.dev/mainstay/internal/storage/kv/embedded"
)

// TestLimitSize checks that the oldest history is deleted if the archive is too large, and that the newest
// state can still be read.
func TestLimitSize(t *testing.T) {
	t.Parallel()
	backend := openBackend(t, embedded.Config{})
	a := openArchive(t, backend, Config{Dir: filepath.Join(t.TempDir(), "history"), Policy: Policy{MaxBytes: 2 << 20}})
	random := rand.NewChaCha8([32]byte{})
	value := make([]byte, 64<<10)
	put(t, backend, "pods/a/old", "1", minute(0))
	var last kv.Revision
	for n := range 100 {
		_, _ = random.Read(value) // never fails
		last = put(t, backend, "pods/a/x", string(value), minute(n))
	}
	catchUp(t, a)
	db, err := a.acquire()
	if err != nil {
		t.Fatal(err)
	}
	err = db.flush()
	a.release()
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Trim(t.Context()); err != nil {
		t.Fatal(err)
	}
	if size := a.sizeMetric(); size > 2<<20 {
		t.Errorf("the archive has %.0f bytes", size)
	}
	if oldest := a.oldestTime(); !oldest.After(minute(50)) || !oldest.Before(minute(99)) {
		t.Errorf("the oldest state is of %s", oldest)
	}
	v, err := a.View(t.Context(), last)
	if err != nil {
		t.Fatal(err)
	}
	res, err := v.Range(t.Context(), kv.RangeRequest{Start: "/registry/pods/", Limit: 1, WithCount: true})
	if err != nil || len(res.Entries) != 1 || !res.More || res.Count != 2 {
		t.Errorf("a page: %d entries of %d, %v", len(res.Entries), res.Count, err)
	}
	if e, _, err := v.Get(t.Context(), "/registry/pods/a/x", 0); err != nil || !bytes.Equal(e.Value, value) {
		t.Errorf("the newest value: %v", err)
	}
	sizes, err := a.Sizes()
	if err != nil || sizes["pods"] < 64<<10 || len(sizes) != 1 {
		t.Errorf("sizes by resource: %v, %v", sizes, err)
	}
}

// TestLimitPresent checks that an archive keeps the newest versions of all keys, even if these versions
// exceed the maximum size.
func TestLimitPresent(t *testing.T) {
	t.Parallel()
	backend := openBackend(t, embedded.Config{})
	a := openArchive(t, backend, Config{Dir: filepath.Join(t.TempDir(), "history"), Policy: Policy{MaxBytes: 1 << 20}})
	random := rand.NewChaCha8([32]byte{})
	for n := range 50 {
		value := make([]byte, 64<<10)
		_, _ = random.Read(value) // never fails
		put(t, backend, fmt.Sprintf("pods/a/%d", n), string(value), minute(n))
	}
	for range 3 {
		catchUp(t, a)
		db, err := a.acquire()
		if err != nil {
			t.Fatal(err)
		}
		err = db.flush()
		a.release()
		if err = errors.Join(err, a.Trim(t.Context())); err != nil {
			t.Fatal(err)
		}
	}
	a.trimming.Lock()
	smallest := a.smallest
	a.trimming.Unlock()
	if smallest < 50*64<<10 {
		t.Errorf("the size of the newest versions is %d", smallest)
	}
	if v, err := a.View(t.Context(), a.Position()); err != nil {
		t.Error(err)
	} else if res, err := v.Range(t.Context(), kv.RangeRequest{Start: "/registry/pods/", CountOnly: true}); err != nil || res.Count != 50 {
		t.Errorf("%d keys, %v", res.Count, err)
	}
}

// TestLimitWithoutChanges checks that the oldest state has a time if the changes of the deleted part were
// deleted before because of their age.
func TestLimitWithoutChanges(t *testing.T) {
	t.Parallel()
	backend := openBackend(t, embedded.Config{})
	put(t, backend, "nodes/x", "1", minute(0))
	var now atomic.Int64 // in minutes
	a := openArchive(t, backend, Config{
		Dir: filepath.Join(t.TempDir(), "history"), now: func() time.Time { return minute(int(now.Load())) },
		Policy: Policy{MaxBytes: 2 << 20, MaxAge: time.Hour, Resources: map[string]Rule{"leases": {MaxAge: time.Minute}}},
	})
	put(t, backend, "nodes/x", "2", minute(20))
	random := rand.NewChaCha8([32]byte{})
	value := make([]byte, 64<<10)
	for n := range 100 {
		_, _ = random.Read(value) // never fails
		put(t, backend, "leases/a/x", string(value), minute(20+n))
	}
	catchUp(t, a)
	db, err := a.acquire()
	if err != nil {
		t.Fatal(err)
	}
	err = db.flush()
	a.release()
	now.Store(120)
	if err = errors.Join(err, a.Trim(t.Context())); err != nil {
		t.Fatal(err)
	}
	if _, at := a.Oldest(); !at.Equal(minute(60)) {
		t.Errorf("the oldest state is of %s, want %s", at, minute(60))
	}
	var expired *ExpiredError
	if at, err := a.RevisionAt(t.Context(), minute(10)); !errors.As(err, &expired) {
		t.Errorf("the revision before the history is %d (error %v), want an ExpiredError", at, err)
	}
}

// endingContext is a context whose Err returns an error after a number of calls.
type endingContext struct {
	context.Context
	left int
}

func (c *endingContext) Err() error {
	if c.left--; c.left < 0 {
		return context.Canceled
	}
	return nil
}

// TestTrimManyVersions checks that a maximum number of versions is applied in several batches, to limit
// memory. If trimming is interrupted, the deletions before the interruption are not lost.
func TestTrimManyVersions(t *testing.T) {
	t.Parallel()
	const keys, versions = 40, 3
	backend := openBackend(t, embedded.Config{})
	a := openArchive(t, backend, Config{Policy: Policy{Resources: map[string]Rule{"pods": {}}}})
	random := rand.NewChaCha8([32]byte{})
	value := make([]byte, batchBytes/8)
	_, _ = random.Read(value) // never fails
	for n := range keys {
		for i := range versions {
			value[i]++ // a small change is stored as a delta
			put(t, backend, fmt.Sprintf("pods/a/%02d", n), string(value), minute(i))
		}
	}
	catchUp(t, a)
	db, err := a.acquire()
	if err != nil {
		t.Fatal(err)
	}
	a.release() // no other goroutine replaces the database
	trim := func(ctx context.Context, want error) (left int) {
		t.Helper()
		if err := a.trimVersions(ctx, db, "pods", 1); !errors.Is(err, want) {
			t.Fatalf("trim: %v, want %v", err, want)
		}
		for n := range keys {
			err := a.versions(t.Context(), db, fmt.Sprintf("/registry/pods/a/%02d", n), func(v *version) bool {
				left++
				return true
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		return left
	}
	if left := trim(&endingContext{t.Context(), keys * versions / 2}, context.Canceled); left >= keys*versions || left <= keys {
		t.Errorf("an interrupted trim left %d versions of %d keys", left, keys)
	}
	if left := trim(t.Context(), nil); left != keys {
		t.Errorf("%d versions of %d keys are left", left, keys)
	}
	v, err := a.View(t.Context(), a.Position())
	if err != nil {
		t.Fatal(err)
	}
	if e, _, err := v.Get(t.Context(), fmt.Sprintf("/registry/pods/a/%02d", keys-1), 0); err != nil || !bytes.Equal(e.Value, value) {
		t.Errorf("the newest value: %v", err)
	}
}

// TestChangedRules checks that versions are kept and deleted by the current rules after a resource gets its
// own rule or loses it, and that a state with deleted versions cannot be read.
func TestChangedRules(t *testing.T) {
	t.Parallel()
	const hour = 60 // minutes
	long := map[string]Rule{"pods": {MaxAge: 10 * hour * time.Minute}}
	type run struct {
		rules map[string]Rule
		now   int // time of a change and of the trim, in minutes
	}
	for name, test := range map[string]struct {
		runs []run
		// want contains the values at the times of the runs; "" if the state is unknown.
		want []string
	}{
		"added":             {[]run{{nil, 0}, {long, 3 * hour}, {long, 6 * hour}, {long, 9 * hour}}, []string{"0", "180", "360", "540"}},
		"removed":           {[]run{{long, 0}, {long, 3 * hour}, {long, 6 * hour}, {nil, 9 * hour}}, []string{"", "", "360", "540"}},
		"removed and added": {[]run{{long, 0}, {long, 3 * hour}, {nil, 6 * hour}, {long, 9 * hour}}, []string{"", "180", "360", "540"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			backend, dir := openBackend(t, embedded.Config{}), filepath.Join(t.TempDir(), "history")
			var a *Archive
			var revisions []kv.Revision
			for _, r := range test.runs {
				a = openArchive(t, backend, Config{Dir: dir, now: func() time.Time { return minute(r.now) }, Policy: Policy{MaxAge: time.Hour, Resources: r.rules}})
				put(t, backend, "nodes/x", strconv.Itoa(r.now), minute(r.now))
				put(t, backend, "pods/a/x", strconv.Itoa(r.now), minute(r.now))
				revisions = append(revisions, put(t, backend, "nodes/y", strconv.Itoa(r.now), minute(r.now)))
				if err := a.Trim(t.Context()); err != nil {
					t.Fatal(err)
				}
				if err := a.Close(); err != nil {
					t.Fatal(err)
				}
			}
			a = openArchive(t, backend, Config{Dir: dir, now: a.now, Policy: Policy{MaxAge: time.Hour, Resources: test.runs[len(test.runs)-1].rules}})
			known := 0
			for i, want := range test.want {
				got := ""
				var expired *ExpiredError
				v, err := a.View(t.Context(), revisions[i])
				if err == nil {
					var res kv.RangeResult
					res, err = v.Range(t.Context(), kv.RangeRequest{Start: "/registry/pods/", End: "/registry/pods0"})
					if err == nil && len(res.Entries) == 1 {
						got = string(res.Entries[0].Value)
					} else if err == nil {
						t.Errorf("%d entries after run %d, want 1 or an error", len(res.Entries), i)
					}
				}
				if err != nil && !errors.As(err, &expired) {
					t.Fatal(err)
				}
				if got != want {
					t.Errorf("the value after run %d is %q (error %v), want %q", i, got, err, want)
				}
				if want != "" {
					known++
				}
			}
			versions := 0
			db, err := a.acquire()
			if err == nil {
				err = a.versions(t.Context(), db, "/registry/pods/a/x", func(*version) bool { versions++; return true })
				a.release()
			}
			if err != nil {
				t.Fatal(err)
			}
			if versions != known {
				t.Errorf("%d versions, want %d", versions, known)
			}
		})
	}
}

// TestVersionsAfterTrim checks that Versions and Changes agree after a trim: the newest version of a key is always
// retained, but it is not a change if the change was deleted.
func TestVersionsAfterTrim(t *testing.T) {
	t.Parallel()
	backend := openBackend(t, embedded.Config{})
	var now atomic.Int64 // in minutes
	a := openArchive(t, backend, Config{now: func() time.Time { return minute(int(now.Load())) }, Policy: Policy{MaxAge: time.Hour}})
	for _, key := range []string{"nodes/old", "nodes/new"} {
		put(t, backend, key, "1", minute(10))
		put(t, backend, key, "2", minute(11))
	}
	put(t, backend, "nodes/new", "3", minute(100))
	catchUp(t, a)
	now.Store(120)
	if err := a.Trim(t.Context()); err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]string{"/registry/nodes/old": "", "/registry/nodes/new": "2>3 "} {
		changes, versions := "", ""
		add := func(to *string) func(*Change) bool {
			return func(c *Change) bool {
				before := "?"
				if c.Before != nil {
					before = string(c.Before.Value)
				}
				*to += before + ">" + string(c.After.Value) + " "
				return true
			}
		}
		err := a.Changes(t.Context(), 0, a.Position(), func(k string) bool { return k == key }, add(&changes))
		if err = errors.Join(err, a.Versions(t.Context(), key, a.Position(), add(&versions))); err != nil {
			t.Fatal(err)
		}
		if changes != want || versions != want {
			t.Errorf("%s: Changes returns %q, Versions returns %q, want %q", key, changes, versions, want)
		}
	}
}

// TestClockJumps checks that changes with a wrong time do not cause the deletion of newer history, and do not
// prevent the deletion of old history.
func TestClockJumps(t *testing.T) {
	t.Parallel()
	const year = 366 * 24 * 60
	for name, test := range map[string]struct {
		times []int // of the changes, in minutes
		now   int
		want  int // the number of deleted changes
	}{
		"in the past":      {[]int{100, 101, 102, -year, -year, -year, 103, 104}, 130, 0},
		"old past":         {[]int{10, 11, -year, 13, 80}, 100, 4},
		"in the future":    {[]int{10, 11, year, 12, 90}, 100, 4},
		"only the future":  {[]int{year, year}, 100, 0},
		"newest in future": {[]int{10, year}, 100, 1},
		"now in the past":  {[]int{10, 11}, -year, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			backend := openBackend(t, embedded.Config{})
			var now atomic.Int64 // in minutes
			a := openArchive(t, backend, Config{now: func() time.Time { return minute(int(now.Load())) }, Policy: Policy{MaxAge: time.Hour}})
			for _, at := range test.times {
				put(t, backend, "nodes/x", "1", minute(at))
			}
			catchUp(t, a)
			now.Store(int64(test.now))
			if err := a.Trim(t.Context()); err != nil {
				t.Fatal(err)
			}
			left := 0
			err := a.Changes(t.Context(), 0, a.Position(), func(string) bool { return true }, func(*Change) bool { left++; return true })
			if err != nil {
				t.Fatal(err)
			}
			if deleted := len(test.times) - left; deleted != test.want {
				t.Errorf("%d of %d changes were deleted, want %d", deleted, len(test.times), test.want)
			}
		})
	}
}

func FuzzDecode(f *testing.F) {
	v := version{key: "a", revision: 7, created: 3, time: minute(1), origin: []byte("o"), value: []byte("v")}
	f.Add([]byte("r\x00\x00\x00\x00\x00\x00\x00\x07a"), appendVersion(nil, &v))
	f.Fuzz(func(t *testing.T, key, value []byte) {
		_, _ = decodeVersion("a", 7, value)
		_, _ = decodeChange(key, value)
		_, _ = decodeGap(key, value)
		_, _ = decodeFloor(key, value)
	})
}
