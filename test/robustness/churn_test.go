package robustness

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
)

const (
	churnWriters = 6
	churnObjects = 5
	// churnPadding is the size of the padding in each object, in bytes. Large objects cause a compaction after
	// few writes. Annotations are limited to 256 KiB.
	churnPadding = 200 << 10
	// churnHistory is the history retention of the server.
	churnHistory = 200 * time.Millisecond
)

// TestChurn continuously changes large objects while fast, slow and stalled clients watch, on a server that
// keeps a very short history. A watcher that falls too far behind receives an error and lists again; apart from
// that, all guarantees of watches hold.
func TestChurn(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		writes int64
		cache  bool
	}{
		{"cached", 480, true}, // more than the 64 MiB that fit into the cache's log
		{"uncached", 150, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if testing.Short() && tt.cache {
				t.Skip("cache.TestTightLog and the other case cover forgotten history with -short")
			}
			churn(t, random(t), tt.writes, fmt.Sprintf("--watch-cache=%t", tt.cache))
		})
	}
}

func churn(t *testing.T, rng *rand.Rand, writes int64, flag string) {
	in := newInstance(t, flag, "--history-retention="+churnHistory.String())
	looker := in.client(t)
	_, start, _, err := looker.list(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var end atomic.Int64
	over := make(chan struct{})
	watchers := churnWatchers(t, in, rng, over)
	watching, watchCtx := errgroup.WithContext(t.Context())
	for _, w := range watchers {
		watching.Go(func() error { return w.follow(watchCtx, start, end.Load) })
	}
	puts, deletions, err := churnWrite(watchCtx, t, in, rng, writes)
	close(over)
	if err != nil {
		t.Fatal(errors.Join(err, watching.Wait()))
	}
	expectForgotten(t, looker, start)
	last, err := lastWrites(t.Context(), looker, "a", &end)
	if err != nil {
		t.Fatal(err)
	}
	changes, err := chronicle(nil, append(puts, last...), deletions)
	if err != nil {
		t.Fatal(err)
	}
	if err := watching.Wait(); err != nil {
		t.Fatal(err)
	}
	checkChurn(t, watchers, changes)
}

// churnWatchers returns the fast, slow and stalled watchers.
func churnWatchers(t *testing.T, in *instance, rng *rand.Rand, over <-chan struct{}) []*watcher {
	slowly := func(bytesPerTick int) func(context.Context, io.Reader) io.Reader {
		return func(ctx context.Context, r io.Reader) io.Reader { return &slowReader{ctx, r, bytesPerTick, over} }
	}
	stalled := func(ctx context.Context, r io.Reader) io.Reader { return &stalledReader{ctx, r, over} }
	var watchers []*watcher
	for _, w := range []watcher{
		{received: watched{selector: selector{}}, rng: branch(rng)},
		{received: watched{selector: selector{group: "a"}}},
		{received: watched{selector: selector{}}, reader: slowly(32 << 10)},
		{received: watched{selector: selector{group: "a"}}, reader: slowly(32 << 10)},
		{received: watched{selector: selector{}}, reader: stalled},
	} {
		w.client, w.await, w.relist = in.client(t), in.serving, true
		watchers = append(watchers, &w)
	}
	return watchers
}

// churnWrite creates, updates and deletes objects, and returns the changes.
func churnWrite(ctx context.Context, t *testing.T, in *instance, rng *rand.Rand, writes int64) (puts, deletions []object, err error) {
	writing, ctx := errgroup.WithContext(ctx)
	var count atomic.Int64
	var writers []*writer
	for id := range churnWriters {
		u := in.user(t)
		u.padding = strings.Repeat("x", churnPadding)
		w := &writer{
			id: id, rng: branch(rng), send: u.request, c: u.client, objects: churnObjects,
			acknowledged: map[string]object{},
		}
		writers = append(writers, w)
		writing.Go(func() error {
			for count.Add(1) <= writes {
				if out, err := w.write(ctx); err != nil || out != done {
					return fmt.Errorf("write: %s: %w", out, err)
				}
			}
			return nil
		})
	}
	err = writing.Wait()
	for _, w := range writers {
		puts = append(puts, w.puts...)
		deletions = append(deletions, w.deletions...)
	}
	return puts, deletions, err
}

// expectForgotten waits until the server rejects a watch from the start revision, which proves that the server
// removes history.
func expectForgotten(t *testing.T, c *client, start int64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	w := &watcher{client: c}
	for {
		s := stream{from: start}
		err := w.connection(ctx, &s, func() int64 { return start + 1 })
		if errors.Is(err, errExpired) {
			return
		}
		if err != nil {
			t.Fatalf("a watch from the beginning is not rejected as expired: %v", err)
		}
	}
}

func checkChurn(t *testing.T, watchers []*watcher, changes []change) {
	t.Helper()
	for i, w := range watchers {
		if err := w.received.check(changes); err != nil {
			t.Error(err)
		}
		events := 0
		for _, s := range w.received.streams {
			events += len(changesOf(s.events))
		}
		t.Logf("watcher %d, of %s: %d events of %d over %d connections, expired %d times",
			i, w.received.selector, events, len(w.received.selector.project(changes)), len(w.received.streams), w.expired)
	}
	stalled := watchers[len(watchers)-1]
	if stalled.expired == 0 {
		t.Error("the watcher that stalled did not get an Expired error, so that the test is not valid")
	}
}

// slowTick is the interval between two reads of a slow reader.
const slowTick = 20 * time.Millisecond

// slowReader reads a limited number of bytes per tick until over is closed.
type slowReader struct {
	ctx   context.Context
	r     io.Reader
	bytes int
	over  <-chan struct{}
}

func (s *slowReader) Read(p []byte) (int, error) {
	select {
	case <-time.After(slowTick):
		p = p[:min(len(p), s.bytes)]
	case <-s.over:
	case <-s.ctx.Done():
		return 0, s.ctx.Err()
	}
	return s.r.Read(p)
}

// stalledReader reads nothing until over is closed.
type stalledReader struct {
	ctx  context.Context
	r    io.Reader
	over <-chan struct{}
}

func (s *stalledReader) Read(p []byte) (int, error) {
	select {
	case <-s.over:
	case <-s.ctx.Done():
		return 0, s.ctx.Err()
	}
	return s.r.Read(p)
}
