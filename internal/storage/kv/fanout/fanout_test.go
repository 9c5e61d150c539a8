package fanout_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"mainstay.dev/mainstay/internal/storage/kv"
	"mainstay.dev/mainstay/internal/storage/kv/embedded"
	"mainstay.dev/mainstay/internal/storage/kv/fanout"
	"mainstay.dev/mainstay/internal/storage/kv/kvtest"
	"mainstay.dev/mainstay/internal/storage/storagetest"
)

func open(t *testing.T) kv.Backend {
	t.Helper()
	store, err := embedded.Open(embedded.Config{InMemory: true})
	if err != nil {
		t.Fatal(err)
	}
	shared, err := fanout.New(context.Background(), store, "")
	if err != nil {
		t.Fatal(err)
	}
	return shared
}

func TestContract(t *testing.T) {
	t.Parallel()
	kvtest.Run(t, open)
}

func commit(t *testing.T, b kv.Backend, key string) kv.Revision {
	t.Helper()
	result, err := b.Commit(t.Context(), kv.Op{Key: key, Value: []byte("x"), Expect: kv.AnyRevision})
	if err != nil {
		t.Fatal(err)
	}
	return result.Revision
}

// TestSlowReceiver checks that a receiver that falls thousands of batches behind receives all events in
// order, and that it does not delay another receiver.
func TestSlowReceiver(t *testing.T) {
	t.Parallel()
	b := open(t)
	defer b.Close()
	slow, err := b.Watch(t.Context(), "/a/", kv.PrefixEnd("/a/"), 0)
	if err != nil {
		t.Fatal(err)
	}
	fast, err := b.Watch(t.Context(), "/a/", kv.PrefixEnd("/a/"), 0)
	if err != nil {
		t.Fatal(err)
	}
	var want []kv.Revision
	const writes = 3000
	read := func(w kv.Watch, n int) []kv.Revision {
		var got []kv.Revision
		for len(got) < n {
			batch, ok := <-w.Batches()
			if !ok {
				t.Fatalf("the watch ended: %v", w.Err())
			}
			for i := range batch.Events {
				got = append(got, batch.Events[i].Revision)
			}
		}
		return got
	}
	for i := range writes {
		want = append(want, commit(t, b, fmt.Sprintf("/a/%d", i%10)))
		if got := read(fast, 1); got[0] != want[i] {
			t.Fatalf("the fast watch received %v, want %d", got, want[i])
		}
	}
	for i, got := range read(slow, writes) {
		if got != want[i] {
			t.Fatalf("event %d is %d, want %d", i, got, want[i])
		}
	}
	last := commit(t, b, "/a/last")
	if got := read(slow, 1); got[0] != last {
		t.Errorf("after catching up: %v, want %d", got, last)
	}
}

// failing is a backend whose watches can be made to fail.
type failing struct {
	kv.Backend
	mu   sync.Mutex
	open []*failingWatch
}

type failingWatch struct {
	kv.Watch
	failed chan struct{}
	once   sync.Once
	ch     chan kv.Batch
}

var errFailed = errors.New("the connection is broken")

func (f *failing) Watch(ctx context.Context, start, end string, from kv.Revision) (kv.Watch, error) {
	inner, err := f.Backend.Watch(ctx, start, end, from)
	if err != nil {
		return nil, err
	}
	w := &failingWatch{Watch: inner, failed: make(chan struct{}), ch: make(chan kv.Batch)}
	f.mu.Lock()
	f.open = append(f.open, w)
	f.mu.Unlock()
	go func() {
		defer close(w.ch)
		for {
			select {
			case b, ok := <-inner.Batches():
				if !ok {
					return
				}
				select {
				case w.ch <- b:
				case <-w.failed:
					return
				}
			case <-w.failed:
				return
			}
		}
	}()
	return w, nil
}

func (w *failingWatch) Batches() <-chan kv.Batch { return w.ch }

func (w *failingWatch) Stop() { w.once.Do(func() { close(w.failed) }); w.Watch.Stop() }

func (w *failingWatch) Err() error {
	select {
	case <-w.failed:
		return errFailed
	default:
		return w.Watch.Err()
	}
}

// fail ends all open watches with errFailed.
func (f *failing) fail() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, w := range f.open {
		w.once.Do(func() { close(w.failed) })
	}
	f.open = nil
}

// TestFailure checks that a failure of the shared watch ends the live watches with its error, and that later
// watches receive all events.
func TestFailure(t *testing.T) {
	t.Parallel()
	backend := &failing{Backend: storagetest.InMemory(t)}
	b, err := fanout.New(t.Context(), backend, "/a/")
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		w, err := b.Watch(t.Context(), "/a/", kv.PrefixEnd("/a/"), 0)
		if err != nil {
			t.Fatal(err)
		}
		first := commit(t, b, "/a/1")
		for batch := range w.Batches() {
			if batch.Revision >= first {
				break
			}
		}
		backend.fail()
		for range w.Batches() {
		}
		if !errors.Is(w.Err(), errFailed) {
			t.Errorf("the watch ended with %v", w.Err())
		}
		second := commit(t, b, "/a/2")
		again, err := b.Watch(t.Context(), "/a/", kv.PrefixEnd("/a/"), first+1)
		if err != nil {
			t.Fatal(err)
		}
		batch := <-again.Batches()
		for len(batch.Events) == 0 && batch.Revision < second { // progress
			batch = <-again.Batches()
		}
		if len(batch.Events) == 0 || batch.Events[0].Revision != second {
			t.Errorf("after the failure: %+v, want an event of revision %d", batch, second)
		}
		again.Stop()
	}
}

// unavailable is a backend whose CurrentRevision returns kv.ErrUnavailable until available is set.
type unavailable struct {
	kv.Backend
	available atomic.Bool
	opened    chan kv.Revision // receives the first revision of each watch
}

func (u *unavailable) CurrentRevision(ctx context.Context) (kv.Revision, error) {
	if !u.available.Load() {
		return 0, kv.ErrUnavailable
	}
	return u.Backend.CurrentRevision(ctx)
}

func (u *unavailable) Watch(ctx context.Context, start, end string, from kv.Revision) (kv.Watch, error) {
	u.opened <- from
	return u.Backend.Watch(ctx, start, end, from)
}

// TestUnavailable checks that watches work while the shared watch is not open, and that the shared watch is
// opened when the backend becomes available.
func TestUnavailable(t *testing.T) {
	t.Parallel()
	backend := &unavailable{Backend: storagetest.InMemory(t), opened: make(chan kv.Revision, 2)}
	b, err := fanout.New(t.Context(), backend, "/a/")
	if err != nil {
		t.Fatal(err)
	}
	w, err := b.Watch(t.Context(), "/a/", kv.PrefixEnd("/a/"), 1)
	if err != nil {
		t.Fatal(err)
	}
	if from := <-backend.opened; from != 1 {
		t.Errorf("the watch of a backend without a shared watch begins at %d", from)
	}
	first := commit(t, b, "/a/1")
	for batch := range w.Batches() {
		if batch.Revision >= first {
			break
		}
	}
	backend.available.Store(true)
	if from := <-backend.opened; from != first+1 {
		t.Errorf("the shared watch begins at %d, want %d", from, first+1)
	}
	second := commit(t, b, "/a/2")
	for batch := range w.Batches() {
		if batch.Revision >= second {
			break
		}
	}
	if err := w.Err(); err != nil {
		t.Error(err)
	}
}

// TestGoroutines checks that idle watches need no goroutines.
func TestGoroutines(t *testing.T) {
	b := open(t)
	defer b.Close()
	before := runtime.NumGoroutine()
	for i := range 1000 {
		folder := fmt.Sprintf("/%d/", i)
		w, err := b.Watch(t.Context(), folder, kv.PrefixEnd(folder), 0)
		if err != nil {
			t.Fatal(err)
		}
		defer w.Stop()
	}
	if n := runtime.NumGoroutine() - before; n > 10 {
		t.Errorf("1000 watches have %d goroutines", n)
	}
}
