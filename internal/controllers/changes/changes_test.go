package changes_test

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mainstay.dev/mainstay/internal/controllers/changes"
	"mainstay.dev/mainstay/internal/storage/kv"
	"mainstay.dev/mainstay/internal/storage/storagetest"
	"mainstay.dev/mainstay/test/testserver"
)

// recorder records the calls of its methods, one line each.
type recorder struct {
	lines  chan string
	panics bool // whether the next call of Changed panics
}

func (r *recorder) Reset()  { r.lines <- "reset" }
func (r *recorder) Synced() { r.lines <- "synced" }
func (r *recorder) Changed(c *changes.Change) {
	if r.panics {
		r.panics = false
		panic("a subscriber's fault")
	}
	r.lines <- fmt.Sprintf("%s %s %s: %s, was %s", c.Path, c.Namespace, c.Name, c.Value, c.Prev)
}

func (r *recorder) next(n int) []string {
	var lines []string
	for range n {
		lines = append(lines, <-r.lines)
	}
	return lines
}

func TestFeed(t *testing.T) {
	t.Parallel()
	backend := storagetest.InMemory(t)
	commit := func(op kv.Op) {
		t.Helper()
		op.Expect = kv.AnyRevision
		if result, err := backend.Commit(t.Context(), op); err != nil || !result.Committed {
			t.Fatal(result, err)
		}
	}
	put := func(key, value string) { t.Helper(); commit(kv.Op{Key: key, Value: []byte(value)}) }
	put("/p/pods/a/x", "1")
	put("/p/services/specs/a/s", "2")
	put("/p/example.com/ws/b/w", "3")
	put("/p/nodes/n", "4")
	put("/other/pods/a/x", "5")
	put("/p/odd", "6") // not an object
	stores := map[string]bool{"pods": true, "nodes": true, "services/specs": true}
	r := &recorder{lines: make(chan string, 1000)}
	feed := changes.New(changes.Config{
		Backend: backend, Prefix: "p", IsBuiltinPath: func(path string) bool { return stores[path] }, Logger: slog.New(slog.DiscardHandler),
	}, r)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); feed.Run(ctx) }()
	all := []string{"reset", "example.com/ws b w: 3, was ", "nodes  n: 4, was ", "pods a x: 1, was ", "services/specs a s: 2, was ", "synced"}
	if diff := cmp.Diff(all, r.next(len(all))); diff != "" {
		t.Errorf("at first (-want +got):\n%s", diff)
	}
	put("/p/pods/a/x", "7")
	commit(kv.Op{Key: "/p/nodes/n", Kind: kv.OpDelete})
	if diff := cmp.Diff([]string{"pods a x: 7, was 1", "nodes  n: , was 4"}, r.next(2)); diff != "" {
		t.Errorf("then (-want +got):\n%s", diff)
	}
	r.panics = true
	put("/p/pods/a/x", "8")
	again := []string{"reset", "example.com/ws b w: 3, was ", "pods a x: 8, was ", "services/specs a s: 2, was ", "synced"}
	if diff := cmp.Diff(again, r.next(len(again))); diff != "" {
		t.Errorf("after a panic (-want +got):\n%s", diff)
	}
	cancel()
	<-ended
}

// TestFeedOfMany checks that all objects are reported if there are several pages of them.
func TestFeedOfMany(t *testing.T) {
	t.Parallel()
	backend := storagetest.InMemory(t)
	const n = 500
	var ops []kv.Op
	for i := range n {
		ops = append(ops, kv.Op{Key: fmt.Sprintf("/p/pods/a/%d", i), Value: []byte("v")})
	}
	if _, err := backend.Commit(t.Context(), ops...); err != nil {
		t.Fatal(err)
	}
	r := &recorder{lines: make(chan string, 2*n)}
	feed := changes.New(changes.Config{Backend: backend, Prefix: "/p", IsBuiltinPath: func(string) bool { return true }, Logger: slog.New(slog.DiscardHandler)}, r)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); feed.Run(ctx) }()
	seen := map[string]bool{}
	for line := range r.lines {
		if seen[line] = true; line == "synced" {
			break
		}
	}
	if len(seen) != n+2 {
		t.Errorf("%d lines, want %d", len(seen), n+2)
	}
	cancel()
	<-ended
}

// TestFeedOfTwo checks that objects with a separate backend are reported only from that backend.
func TestFeedOfTwo(t *testing.T) {
	t.Parallel()
	var backends [2]kv.Backend
	for i := range backends {
		backend := storagetest.InMemory(t)
		backends[i] = backend
	}
	put := func(backend int, key, value string) {
		t.Helper()
		if _, err := backends[backend].Commit(t.Context(), kv.Op{Key: key, Expect: kv.AnyRevision, Value: []byte(value)}); err != nil {
			t.Fatal(err)
		}
	}
	put(0, "/p/pods/a/x", "1")
	put(0, "/p/events/a/old", "2")
	put(1, "/p/events/a/e", "3")
	put(1, "/p/pods/a/old", "4")
	r := &recorder{lines: make(chan string, 100)}
	feed := changes.New(changes.Config{
		Backend: backends[0], Overrides: map[string]kv.Backend{"events": backends[1]}, Prefix: "p",
		IsBuiltinPath: func(string) bool { return true }, Logger: slog.New(slog.DiscardHandler),
	}, r)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); feed.Run(ctx) }()
	all := []string{"reset", "pods a x: 1, was ", "events a e: 3, was ", "synced"}
	if diff := cmp.Diff(all, r.next(len(all))); diff != "" {
		t.Errorf("at first (-want +got):\n%s", diff)
	}
	for backend, change := range map[int][2]string{0: {"/p/pods/a/x", "pods a x: 5, was 1"}, 1: {"/p/events/a/e", "events a e: 5, was 3"}} {
		put(backend, "/p/events/a/older", "5") // reported only by backend 1
		put(backend, change[0], "5")
		want := []string{change[1]}
		if backend == 1 {
			want = []string{"events a older: 5, was ", change[1]}
		}
		if diff := cmp.Diff(want, r.next(len(want))); diff != "" {
			t.Errorf("then (-want +got):\n%s", diff)
		}
	}
	r.panics = true
	put(1, "/p/events/a/e", "6")
	again := []string{"reset", "pods a x: 5, was ", "events a e: 6, was ", "events a older: 5, was ", "synced"}
	if diff := cmp.Diff(again, r.next(len(again))); diff != "" {
		t.Errorf("after a panic (-want +got):\n%s", diff)
	}
	cancel()
	<-ended
}

// TestHasReported checks that a change does not count as reported before the subscriber has received it, and
// that a change to other keys counts as reported after a progress request.
func TestHasReported(t *testing.T) {
	t.Parallel()
	backend := storagetest.InMemory(t)
	put := func(key string) {
		t.Helper()
		if _, err := backend.Commit(t.Context(), kv.Op{Key: key, Expect: kv.AnyRevision, Value: []byte("v")}); err != nil {
			t.Fatal(err)
		}
	}
	put("/p/pods/a/x")
	r := &recorder{lines: make(chan string)} // the subscriber blocks until the test reads a line
	feed := changes.New(changes.Config{Backend: backend, Prefix: "/p", IsBuiltinPath: func(string) bool { return true }, Logger: slog.New(slog.DiscardHandler)}, r)
	newest := func() []kv.Revision {
		t.Helper()
		revisions, err := feed.Newest(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return revisions
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); feed.Run(ctx) }()
	if feed.HasReported(newest()) {
		t.Error("all objects were reported before the start")
	}
	awaitReported := func(revisions []kv.Revision) {
		t.Helper()
		testserver.Eventually(t, time.Minute, func() error {
			if err := backend.RequestProgress(ctx); err != nil {
				return err
			}
			if !feed.HasReported(revisions) {
				return fmt.Errorf("the revisions %v were not reported", revisions)
			}
			return nil
		})
	}
	r.next(3) // until synced
	awaitReported(newest())
	before := feed.Reported()
	put("/p/pods/a/x")
	changed := newest()
	if feed.HasReported(changed) {
		t.Errorf("the change was reported before the subscriber received it")
	}
	r.next(1)
	awaitReported(changed)
	if n := feed.Reported() - before; n != 1 {
		t.Errorf("%d changes were reported, want 1", n)
	}
	put("/other/pods/a/x")
	awaitReported(newest())
	cancel()
	<-ended
	if feed.HasReported(changed) {
		t.Error("HasReported returned true after the feed had ended")
	}
}
