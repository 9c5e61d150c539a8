package archive

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"mainstay.dev/mainstay/internal/storage/kv"
	"mainstay.dev/mainstay/internal/storage/kv/embedded"
	"mainstay.dev/mainstay/internal/storage/origin"
)

func openBackend(t *testing.T, cfg embedded.Config) *embedded.Store {
	t.Helper()
	cfg.InMemory = cfg.Dir == ""
	if cfg.Retention == 0 {
		cfg.Retention = -1
	}
	s, err := embedded.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() }) // tests may have closed it
	return s
}

// openArchive returns an archive that follows a backend.
func openArchive(t *testing.T, backend kv.Backend, cfg Config) *Archive {
	t.Helper()
	cfg.InMemory, cfg.Prefix = cfg.Dir == "", "/registry/"
	a, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.Close() }) // tests may have closed it
	if err := a.Start(t.Context(), backend); err != nil {
		t.Fatal(err)
	}
	catchUp(t, a)
	return a
}

func catchUp(t *testing.T, a *Archive) {
	t.Helper()
	if _, err := a.CatchUp(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func put(t *testing.T, backend kv.Backend, key, value string, at time.Time) kv.Revision {
	t.Helper()
	o := origin.Origin{Time: at, User: "alice"}
	return commit(t, backend, kv.Op{Key: "/registry/" + key, Value: []byte(value), Expect: kv.AnyRevision, Origin: o.Encode()})
}

func remove(t *testing.T, backend kv.Backend, key string, at time.Time) kv.Revision {
	t.Helper()
	o := origin.Origin{Time: at, User: "bob"}
	return commit(t, backend, kv.Op{Key: "/registry/" + key, Kind: kv.OpDelete, Expect: kv.AnyRevision, Origin: o.Encode()})
}

func commit(t *testing.T, backend kv.Backend, ops ...kv.Op) kv.Revision {
	t.Helper()
	res, err := backend.Commit(t.Context(), ops...)
	if err != nil || !res.Committed {
		t.Fatalf("commit: %+v, %v", res, err)
	}
	return res.Revision
}

// stateAt returns the keys and values at a revision, as text.
func stateAt(t *testing.T, a *Archive, at kv.Revision) string {
	t.Helper()
	v, err := a.View(t.Context(), at)
	if err != nil {
		t.Fatalf("view at %d: %v", at, err)
	}
	res, err := v.Range(t.Context(), kv.RangeRequest{Start: "/registry/"})
	if err != nil {
		t.Fatalf("range at %d: %v", at, err)
	}
	return text(res.Entries)
}

func text(entries []kv.Entry) string {
	var list []string
	for _, e := range entries {
		list = append(list, fmt.Sprintf("%s=%s@%d", strings.TrimPrefix(e.Key, "/registry/"), e.Value, e.Created))
	}
	return strings.Join(list, " ")
}

// minute returns the time n minutes after the start of the tests' clock.
func minute(n int) time.Time {
	return time.Date(2026, 1, 2, 0, n, 0, 0, time.UTC)
}

// TestView checks the states at revisions, even after the backend was compacted.
func TestView(t *testing.T) {
	t.Parallel()
	backend := openBackend(t, embedded.Config{})
	put(t, backend, "pods/a/before", "0", minute(0))
	a := openArchive(t, backend, Config{})
	first := put(t, backend, "pods/a/x", "1", minute(1))
	put(t, backend, "pods/a/x", "2", minute(2))
	put(t, backend, "pods/b/y", "3", minute(3))
	remove(t, backend, "pods/a/x", minute(4))
	last := put(t, backend, "pods/a/x", "5", minute(5))
	catchUp(t, a)
	if err := backend.Compact(t.Context(), last); err != nil {
		t.Fatal(err)
	}
	before := "pods/a/before=0@2"
	for i, want := range []string{" pods/a/x=1@3", " pods/a/x=2@3", " pods/a/x=2@3 pods/b/y=3@5", " pods/b/y=3@5", " pods/a/x=5@7 pods/b/y=3@5"} {
		if got := stateAt(t, a, first+kv.Revision(i)); got != before+want {
			t.Errorf("at revision %d: %s, want %s", int(first)+i, got, before+want)
		}
	}
	v, err := a.View(t.Context(), first)
	if err != nil {
		t.Fatal(err)
	}
	if e, at, err := v.Get(t.Context(), "/registry/pods/a/x", 0); err != nil || at != first || string(e.Value) != "1" {
		t.Errorf("get: %+v at %d, %v", e, at, err)
	}
	if _, _, err := v.Get(t.Context(), "/registry/pods/a/x", first+1); !errors.Is(err, kv.ErrFutureRevision) {
		t.Errorf("get after the view: %v", err)
	}
	if _, err := v.Commit(t.Context(), kv.Op{Key: "/registry/a"}); !errors.Is(err, ErrReadOnly) {
		t.Errorf("commit: %v", err)
	}
	if _, err := a.View(t.Context(), last+1); !errors.Is(err, kv.ErrFutureRevision) {
		t.Errorf("view of the future: %v", err)
	}
	if _, err := a.View(t.Context(), 1); !errors.Is(err, kv.ErrCompacted) {
		t.Errorf("view before the start: %v", err)
	}
}

// TestRevisionAt checks the conversion of times.
func TestRevisionAt(t *testing.T) {
	t.Parallel()
	backend := openBackend(t, embedded.Config{})
	var now atomic.Int64
	now.Store(minute(-1).Unix())
	a := openArchive(t, backend, Config{now: func() time.Time { return time.Unix(now.Load(), 0) }})
	now.Store(minute(10).Unix())
	first := put(t, backend, "pods/a/x", "1", minute(1))
	for n := 2; n < 9; n++ {
		put(t, backend, "pods/a/x", "1", minute(n))
	}
	for n, want := range map[int]kv.Revision{0: first - 1, 1: first, 2: first + 1, 7: first + 6, 8: first + 7, 9: first + 7, 11: first + 7} {
		for _, add := range []time.Duration{0, time.Second} {
			if got, err := a.RevisionAt(t.Context(), minute(n).Add(add)); got != want || err != nil {
				t.Errorf("at minute %d: %d, %v, want %d", n, got, err, want)
			}
		}
	}
	var expired *ExpiredError
	if _, err := a.RevisionAt(t.Context(), minute(-2)); !errors.As(err, &expired) || !expired.To.Equal(minute(-1)) {
		t.Errorf("before the start: %v", err)
	}
	if at, err := a.TimeOf(first + 2); err != nil || !at.Equal(minute(3)) {
		t.Errorf("time of a revision: %s, %v", at, err)
	}
}

// TestRestart checks that a restart continues the history, and that a crash loses nothing that the
// backend still has.
func TestRestart(t *testing.T) {
	t.Parallel()
	backend := openBackend(t, embedded.Config{})
	dir := filepath.Join(t.TempDir(), "history")
	a := openArchive(t, backend, Config{Dir: dir})
	first := put(t, backend, "pods/a/x", "1", minute(1))
	second := put(t, backend, "pods/a/x", "2", minute(2))
	catchUp(t, a)
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	third := put(t, backend, "pods/a/x", "3", minute(3))
	a = openArchive(t, backend, Config{Dir: dir})
	for at, want := range map[kv.Revision]string{first: "1", second: "2", third: "3"} {
		if got := stateAt(t, a, at); got != fmt.Sprintf("pods/a/x=%s@%d", want, first) {
			t.Errorf("at %d: %s", at, got)
		}
	}
	// A crash loses the changes that were not flushed.
	fourth := put(t, backend, "pods/a/x", "4", minute(4))
	catchUp(t, a)
	a.life.RLock()
	a.db.guard.Fail(errors.New("crash"))
	a.life.RUnlock()
	if err := a.Close(); err != nil && !strings.Contains(err.Error(), "crash") {
		t.Fatal(err)
	}
	a, err := Open(Config{Dir: dir, Prefix: "/registry/"})
	if err != nil {
		t.Fatal(err)
	}
	if at := a.Position(); at >= fourth {
		t.Fatalf("the position %d after a crash is not that of the last flush", at)
	}
	if err := a.Start(t.Context(), backend); err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	if got := stateAt(t, a, fourth); got != fmt.Sprintf("pods/a/x=4@%d", first) {
		t.Errorf("after a crash: %s", got)
	}
}

// lastWatch is a Backend that records the newest watch.
type lastWatch struct {
	kv.Backend
	watch chan kv.Watch
}

func (b lastWatch) Watch(ctx context.Context, start, end string, from kv.Revision) (kv.Watch, error) {
	w, err := b.Backend.Watch(ctx, start, end, from)
	b.watch <- w
	return w, err
}

// TestHoldAfterInterruption checks that a crash loses no changes if the watch of the store was interrupted after
// the last flush.
func TestHoldAfterInterruption(t *testing.T) {
	t.Parallel()
	store := openBackend(t, embedded.Config{})
	backend := lastWatch{store, make(chan kv.Watch, 2)}
	config := Config{Dir: filepath.Join(t.TempDir(), "history"), FlushInterval: time.Hour}
	a := openArchive(t, backend, config)
	first := put(t, store, "pods/a/x", "1", minute(1))
	put(t, store, "pods/a/x", "2", minute(2))
	catchUp(t, a)
	(<-backend.watch).Stop()
	last := put(t, store, "pods/a/x", "3", minute(3))
	catchUp(t, a)
	if err := store.Compact(t.Context(), last); err != nil {
		t.Fatal(err)
	}
	a.life.RLock()
	a.db.guard.Fail(errors.New("crash"))
	a.life.RUnlock()
	_ = a.Close() // the crash
	a = openArchive(t, store, config)
	if got, want := stateAt(t, a, first), fmt.Sprintf("pods/a/x=1@%d", first); got != want {
		t.Errorf("after a crash: %s, want %s", got, want)
	}
}

// TestRepair checks that the archive reopens its database after a failed write, and reads the lost changes
// again.
func TestRepair(t *testing.T) {
	t.Parallel()
	backend := openBackend(t, embedded.Config{})
	a := openArchive(t, backend, Config{Dir: filepath.Join(t.TempDir(), "history")})
	first := put(t, backend, "pods/a/x", "1", minute(1))
	catchUp(t, a)
	a.life.RLock()
	a.db.guard.Fail(errors.New("no space"))
	a.life.RUnlock()
	last := put(t, backend, "pods/a/x", "2", minute(2))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for err := a.Await(ctx, last); err != nil; err = a.Await(ctx, last) {
		if !errors.Is(err, kv.ErrUnavailable) {
			t.Fatal(err)
		}
		time.Sleep(time.Millisecond) // until the archive is open again
	}
	for at, want := range map[kv.Revision]string{first: "1", last: "2"} {
		if got := stateAt(t, a, at); got != fmt.Sprintf("pods/a/x=%s@%d", want, first) {
			t.Errorf("at %d: %s", at, got)
		}
	}
}

// blockedWatch is a Backend whose watches, except the first one, open only after blocked is closed.
type blockedWatch struct {
	kv.Backend
	calls   *atomic.Int64
	opening chan struct{} // receives before a call blocks
	blocked chan struct{}
}

func (b blockedWatch) Watch(ctx context.Context, start, end string, from kv.Revision) (kv.Watch, error) {
	if b.calls.Add(1) > 1 {
		b.opening <- struct{}{}
		<-b.blocked
	}
	return b.Backend.Watch(ctx, start, end, from)
}

// hookContext calls a function when its Done channel is requested.
type hookContext struct {
	context.Context
	hook func()
}

func (c hookContext) Done() <-chan struct{} {
	c.hook()
	return c.Context.Done()
}

// TestViewDuringRepair checks that a view waits for the changes that a failed write has lost.
func TestViewDuringRepair(t *testing.T) {
	t.Parallel()
	store := openBackend(t, embedded.Config{})
	backend := blockedWatch{store, new(atomic.Int64), make(chan struct{}), make(chan struct{})}
	a := openArchive(t, backend, Config{Dir: filepath.Join(t.TempDir(), "history"), FlushInterval: time.Hour})
	put(t, store, "pods/a/x", "1", minute(1))
	last := put(t, store, "pods/a/x", "2", minute(2))
	catchUp(t, a)
	v, err := a.View(t.Context(), last)
	if err != nil {
		t.Fatal(err)
	}
	a.life.RLock()
	a.db.guard.Fail(errors.New("no space"))
	a.life.RUnlock()
	<-backend.opening
	ctx := hookContext{t.Context(), sync.OnceFunc(func() { close(backend.blocked) })}
	defer ctx.hook()
	e, _, err := v.Get(ctx, "/registry/pods/a/x", 0)
	if err != nil || e == nil || string(e.Value) != "2" {
		t.Errorf("the entry is %v, error %v; want the value 2", e, err)
	}
}

// TestGap checks an archive whose backend was compacted while the archive was closed.
func TestGap(t *testing.T) {
	t.Parallel()
	backend := openBackend(t, embedded.Config{})
	dir := filepath.Join(t.TempDir(), "history")
	var ahead atomic.Int64 // offset of the clock, in nanoseconds
	config := Config{Dir: dir, now: func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }}
	a := openArchive(t, backend, config)
	put(t, backend, "pods/a/deleted", "1", minute(1))
	put(t, backend, "pods/a/same", "1", minute(1))
	known := put(t, backend, "pods/a/x", "1", minute(1))
	catchUp(t, a)
	was := stateAt(t, a, known)
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	missing := put(t, backend, "pods/a/x", "2", minute(2))
	put(t, backend, "pods/a/x", "3", minute(2))
	put(t, backend, "pods/a/new", "1", minute(2))
	last := remove(t, backend, "pods/a/deleted", minute(2))
	if err := backend.Compact(t.Context(), last); err != nil {
		t.Fatal(err)
	}
	a = openArchive(t, backend, config)
	if got := stateAt(t, a, known); got != was {
		t.Errorf("before the gap: %s, want %s", got, was)
	}
	want := fmt.Sprintf("pods/a/new=1@%d pods/a/same=1@%d pods/a/x=3@%d", missing+2, known-1, known)
	if got := stateAt(t, a, last); got != want {
		t.Errorf("after the gap: %s, want %s", got, want)
	}
	var expired *ExpiredError
	if _, err := a.View(t.Context(), missing); !errors.As(err, &expired) || expired.From.IsZero() || expired.To.IsZero() {
		t.Errorf("view of the gap: %v", err)
	}
	v, err := a.View(t.Context(), last)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := v.Watch(t.Context(), "/registry/", "", known); !errors.As(err, &expired) {
		t.Errorf("watch over the gap: %v", err)
	}
	put(t, backend, "pods/a/x", "4", time.Now().Add(time.Hour))
	catchUp(t, a)
	ahead.Store(int64(DefaultMaxAge + 2*time.Hour))
	if err := a.Trim(t.Context()); err != nil {
		t.Fatal(err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.mu.gaps) != 1 || a.mu.gaps[0].from != 0 {
		t.Errorf("gaps after the retention: %+v", a.mu.gaps)
	}
}

// lateCompaction is a Backend whose watches end with kv.ErrCompacted after they were opened, if they begin
// before a revision.
type lateCompaction struct {
	kv.Backend
	compacted kv.Revision
}

func (l lateCompaction) Watch(ctx context.Context, start, end string, from kv.Revision) (kv.Watch, error) {
	if from < l.compacted {
		return compactedWatch{}, nil
	}
	return l.Backend.Watch(ctx, start, end, from)
}

type compactedWatch struct{}

func (compactedWatch) Batches() <-chan kv.Batch {
	closed := make(chan kv.Batch)
	close(closed)
	return closed
}
func (compactedWatch) Err() error { return kv.ErrCompacted }
func (compactedWatch) Stop()      {}

// TestLateCompaction checks that an archive compares all keys if a watch ends because its changes are compacted.
func TestLateCompaction(t *testing.T) {
	t.Parallel()
	backend := openBackend(t, embedded.Config{})
	config := Config{Dir: filepath.Join(t.TempDir(), "history"), Prefix: "/registry/"}
	a := openArchive(t, backend, config)
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	put(t, backend, "pods/a/x", "1", minute(1))
	last := put(t, backend, "pods/a/x", "2", minute(2))
	a, err := Open(config)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	if err := a.Start(t.Context(), lateCompaction{backend, last}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := a.Await(ctx, last); err != nil {
		t.Fatal(err)
	}
	if got, want := stateAt(t, a, last), fmt.Sprintf("pods/a/x=2@%d", last-1); got != want {
		t.Errorf("the state is %s, want %s", got, want)
	}
}

// TestOtherStore checks that an archive does not follow a store with an older revision.
func TestOtherStore(t *testing.T) {
	t.Parallel()
	backend := openBackend(t, embedded.Config{})
	dir := filepath.Join(t.TempDir(), "history")
	a := openArchive(t, backend, Config{Dir: dir})
	for range 5 {
		put(t, backend, "pods/a/x", "1", minute(1))
	}
	catchUp(t, a)
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	a, err := Open(Config{Dir: dir, Prefix: "/registry/"})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	if err := a.Start(t.Context(), openBackend(t, embedded.Config{})); !errors.Is(err, ErrOtherStore) {
		t.Errorf("start with another store: %v", err)
	}
}

// TestReplay checks the watch of a view.
func TestReplay(t *testing.T) {
	t.Parallel()
	backend := openBackend(t, embedded.Config{})
	a := openArchive(t, backend, Config{})
	first := put(t, backend, "pods/a/x", "1", minute(1))
	put(t, backend, "pods/a/x", "2", minute(2))
	put(t, backend, "services/a/y", "2", minute(2))
	last := remove(t, backend, "pods/a/x", minute(3))
	put(t, backend, "pods/a/x", "4", minute(4))
	v, err := a.View(t.Context(), last)
	if err != nil {
		t.Fatal(err)
	}
	w, err := v.Watch(t.Context(), "/registry/pods/", "/registry/pods0", first)
	if err != nil {
		t.Fatal(err)
	}
	batch := <-w.Batches()
	var got []string
	for _, ev := range batch.Events {
		prev := ""
		if ev.Prev != nil {
			prev = string(ev.Prev.Value)
		}
		o, err := origin.Decode(ev.Origin)
		if err != nil {
			t.Error(err)
		}
		got = append(got, fmt.Sprintf("%d %s %s>%s %t", ev.Revision-first, o.User, prev, ev.Value, ev.Deleted))
	}
	want := "[0 alice >1 false 1 alice 1>2 false 3 bob 2> true]"
	if fmt.Sprint(got) != want || batch.Revision != last {
		t.Errorf("events %v up to %d, want %s up to %d", got, batch.Revision, want, last)
	}
	w.Stop()
	if _, ok := <-w.Batches(); ok || w.Err() != nil {
		t.Errorf("after the end: %t, %v", ok, w.Err())
	}
}

// TestChanges checks the changes of a range of revisions and of one key.
func TestChanges(t *testing.T) {
	t.Parallel()
	backend := openBackend(t, embedded.Config{})
	old := put(t, backend, "pods/a/old", "0", minute(0))
	a := openArchive(t, backend, Config{})
	value := func(n int) string { return strings.Repeat("text that does not change ", 10) + fmt.Sprint(n) }
	first := put(t, backend, "pods/a/x", value(0), minute(1))
	for n := 1; n < 40; n++ {
		put(t, backend, "pods/a/x", value(n), minute(n+1))
		put(t, backend, "leases/a/x", value(n), minute(n+1))
	}
	put(t, backend, "pods/a/old", "1", minute(50))
	last := remove(t, backend, "pods/a/x", minute(51))
	catchUp(t, a)
	describe := func(c *Change) string {
		values := func(e *kv.Entry) string {
			if e == nil {
				return "-"
			}
			return string(e.Value[max(0, len(e.Value)-2):])
		}
		return fmt.Sprintf("%s %s %s>%s %t %t", strings.TrimPrefix(c.Key, "/registry/"), c.Time.UTC().Format("04"), values(c.Before), values(c.After), c.Created(), c.Deleted)
	}
	var all, one []string
	err := a.Changes(t.Context(), first, last, func(key string) bool { return strings.HasPrefix(key, "/registry/pods/") }, func(c *Change) bool {
		all = append(all, describe(c))
		return true
	})
	if err != nil || len(all) != 42 {
		t.Fatalf("%d changes, %v", len(all), err)
	}
	for i, want := range map[int]string{
		0: "pods/a/x 01 -> 0 true false", 1: "pods/a/x 02  0> 1 false false", 39: "pods/a/x 40 38>39 false false",
		40: "pods/a/old 50 0>1 false false", 41: "pods/a/x 51 39>- false true",
	} {
		if all[i] != want {
			t.Errorf("change %d is %q, want %q", i, all[i], want)
		}
	}
	err = a.Changes(t.Context(), last+100, last, func(string) bool { return true }, func(*Change) bool { t.Error("unexpected change"); return true })
	if err != nil {
		t.Errorf("changes of an empty range: %v", err)
	}
	err = a.Versions(t.Context(), "/registry/pods/a/x", last, func(c *Change) bool {
		one = append(one, describe(c))
		return true
	})
	if want := append(all[:40:40], all[41]); err != nil || fmt.Sprint(one) != fmt.Sprint(want) {
		t.Errorf("changes of a key: %v\n%q\nwant\n%q", err, one, want)
	}
	var n int
	err = a.Versions(t.Context(), "/registry/pods/a/old", last, func(c *Change) bool {
		n++
		if c.Before == nil || c.Before.Modified != old {
			t.Errorf("a change of a key that is older than the archive: %+v", c)
		}
		return true
	})
	if err != nil || n != 1 {
		t.Errorf("%d changes, %v", n, err)
	}
}

// lostRequest is a backend that ignores the first request for progress with a context, like a backend without an
// open watch.
type lostRequest struct {
	kv.Backend
	ignored atomic.Bool
}

type lostKey struct{}

func (b *lostRequest) RequestProgress(ctx context.Context) error {
	if ctx.Value(lostKey{}) != nil && !b.ignored.Swap(true) {
		return nil
	}
	return b.Backend.RequestProgress(ctx)
}

// TestLostProgressRequest checks that CatchUp returns if the watch of the archive was opened after the request for
// progress, and there is no later change.
func TestLostProgressRequest(t *testing.T) {
	t.Parallel()
	backend := &lostRequest{Backend: openBackend(t, embedded.Config{})}
	a := openArchive(t, backend, Config{})
	put(t, backend, "pods/a/x", "1", minute(1))
	catchUp(t, a) // the watch is open and has reported its progress
	last := commit(t, backend, kv.Op{Key: "/other", Value: []byte("1")})
	ctx, cancel := context.WithTimeout(context.WithValue(t.Context(), lostKey{}, true), time.Minute)
	defer cancel()
	if at, err := a.CatchUp(ctx); err != nil || at != last {
		t.Errorf("CatchUp: revision %d, %v, want %d", at, err, last)
	}
}
