package robustness

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
)

const (
	crashWriters = 32
	crashObjects = 8 // number of objects of each writer
	defaultKills = 10
	shortKills   = 3 // with -short
	// defaultTime limits the duration of the test if -kills is not set.
	defaultTime = time.Minute
)

// TestCrashes kills the server repeatedly while clients write and watch. After each start, exactly the
// acknowledged writes must be stored, apart from requests that were in flight. Revisions must only grow. The
// events that each watcher receives over all its connections must be exactly the changes.
func TestCrashes(t *testing.T) {
	t.Parallel()
	rng := random(t)
	c := newCrashes(t, rng)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	watching, watchCtx := errgroup.WithContext(ctx)
	for _, w := range c.watchers {
		watching.Go(func() error { return w.follow(watchCtx, c.start, c.end.Load) })
	}
	kills, err := c.run(watchCtx, rng)
	if err != nil {
		cancel()
		t.Fatal(errors.Join(err, watching.Wait()))
	}
	if err := c.finish(ctx); err != nil {
		t.Fatal(err)
	}
	if err := watching.Wait(); err != nil {
		t.Fatal(err)
	}
	c.verify(t, kills)
}

// crashes is the state of the test.
type crashes struct {
	in       *instance
	writers  []*writer
	users    []*user
	watchers []*watcher
	looker   *client
	// start is the revision before the first write. end is the revision of the last write, or 0 if the last
	// write has not happened yet.
	start int64
	end   atomic.Int64
}

func newCrashes(t *testing.T, rng *rand.Rand) *crashes {
	c := &crashes{in: newInstance(t, "--history-retention=-1s")}
	c.looker = c.in.client(t)
	var err error
	if _, c.start, _, err = c.looker.list(t.Context()); err != nil {
		t.Fatal(err)
	}
	for id := range crashWriters {
		u := c.in.user(t)
		c.users = append(c.users, u)
		c.writers = append(c.writers, &writer{
			id: id, rng: branch(rng), send: u.request, c: u.client, objects: crashObjects,
			acknowledged: map[string]object{}, last: c.start,
		})
	}
	for _, sel := range []selector{{}, {}, {group: "a"}, {group: "b"}, {name: "w03-1"}} {
		c.watchers = append(c.watchers, &watcher{
			client: c.in.client(t), received: watched{selector: sel}, rng: branch(rng), await: c.in.serving,
		})
	}
	return c
}

// serving blocks while the server is being restarted. It returns the error of ctx.
func (in *instance) serving(ctx context.Context) error {
	in.gate.RLock()
	defer in.gate.RUnlock()
	return ctx.Err()
}

// run lets all writers write while the server is killed repeatedly, and returns the number of kills.
func (c *crashes) run(ctx context.Context, rng *rand.Rand) (kills int, err error) {
	writing, ctx := errgroup.WithContext(ctx)
	var over atomic.Bool
	for i, w := range c.writers {
		writing.Go(func() error {
			for !over.Load() {
				out, err := w.write(ctx)
				if err != nil {
					return err
				}
				if out == unknown {
					if err := c.users[i].restarted(ctx); err != nil {
						return err
					}
				}
			}
			return nil
		})
	}
	writing.Go(func() error {
		defer over.Store(true)
		deadline := time.Now().Add(defaultTime)
		for kills < wantedKills() {
			if *killsFlag == 0 && time.Now().After(deadline) {
				return nil
			}
			select { // the time until the kill varies
			case <-time.After(time.Duration(50+rng.IntN(400)) * time.Millisecond):
			case <-ctx.Done():
				return ctx.Err()
			}
			if err := c.in.restart(ctx, true, rng, func() error { return c.checkWrites(ctx) }); err != nil {
				return fmt.Errorf("kill %d: %w", kills+1, err)
			}
			kills++
		}
		return nil
	})
	return kills, writing.Wait()
}

// wantedKills returns how often to kill the server.
func wantedKills() int {
	switch {
	case *killsFlag > 0:
		return *killsFlag
	case testing.Short():
		return shortKills
	}
	return defaultKills
}

// checkWrites compares the stored objects with the writes of all writers.
func (c *crashes) checkWrites(ctx context.Context) error {
	c.looker.reconnect()
	there, revision, out, err := c.looker.list(ctx)
	if err != nil || out != done {
		return fmt.Errorf("list: %s: %w", out, err)
	}
	for _, w := range c.writers {
		if err := w.verify(there, revision); err != nil {
			return err
		}
	}
	if len(there) > 0 {
		return fmt.Errorf("objects that nobody wrote: %v", slices.Sorted(maps.Keys(there)))
	}
	return nil
}

// finish compares the stored objects once more and sends the last writes, which make the watchers of all
// objects stop. The other watchers stop after a bookmark, at the latest before their timeout.
func (c *crashes) finish(ctx context.Context) error {
	if err := c.checkWrites(ctx); err != nil {
		return err
	}
	last, err := lastWrites(ctx, c.looker, "last", &c.end)
	c.writers[0].puts = append(c.writers[0].puts, last...)
	return err
}

// verify compares the events of the watchers with the changes.
func (c *crashes) verify(t *testing.T, kills int) {
	t.Helper()
	var puts, deletions []object
	var doubtful []attempt
	for _, w := range c.writers {
		puts = append(puts, w.puts...)
		deletions = append(deletions, w.deletions...)
		doubtful = append(doubtful, w.doubtful...)
	}
	changes, err := complete(puts, deletions, doubtful, c.replay(t))
	if err != nil {
		t.Fatal(err)
	}
	streams, events, bookmarks := 0, 0, 0
	for _, w := range c.watchers {
		if err := w.received.check(changes); err != nil {
			t.Error(err)
		}
		streams += len(w.received.streams)
		for _, s := range w.received.streams {
			events += len(s.events)
			bookmarks += len(s.events) - len(changesOf(s.events))
		}
	}
	t.Logf("%d kills; %d acknowledged writes, %d in doubt; %d events over %d connections of %d watchers, %d of them bookmarks",
		kills, len(puts)+len(deletions), len(doubtful), events, streams, len(c.watchers), bookmarks)
}

// replay watches all changes again from the start, over one connection.
func (c *crashes) replay(t *testing.T) []event {
	t.Helper()
	w := &watcher{client: c.looker, await: func(context.Context) error { return errors.New("the server is gone") }}
	if err := w.follow(t.Context(), c.start, c.end.Load); err != nil {
		t.Fatal(err)
	}
	return changesOf(w.received.streams[0].events)
}

// complete returns the changes. These are the acknowledged writes, and the writes with an unknown outcome for
// which the replay contains an event. Any other event in the replay is an error.
func complete(puts, deletions []object, doubtful []attempt, replay []event) ([]change, error) {
	known := map[int64]bool{}
	for _, o := range slices.Concat(puts, deletions) {
		known[o.revision] = true
	}
	var written, removed = map[string]attempt{}, map[string]attempt{}
	for _, try := range doubtful {
		if try.after.name == "" {
			removed[try.before.value] = try
		} else {
			written[try.after.value] = try
		}
	}
	for _, e := range replay {
		if known[e.revision] {
			continue // chronicle and the predicate Reliable check this event
		}
		from := written
		if e.kind == deleted {
			from = removed
		}
		if _, ok := from[e.value]; !ok {
			return nil, fmt.Errorf("no request created %s", e)
		}
		delete(from, e.value)
		if e.kind == deleted {
			deletions = append(deletions, e.object)
		} else {
			puts = append(puts, e.object)
		}
	}
	changes, err := chronicle(nil, puts, deletions)
	if err != nil {
		return nil, err
	}
	// The replay must provide the same guarantees as the other watches.
	received := watched{streams: []stream{{from: 0, events: replay}}}
	return changes, received.check(changes)
}
