package robustness

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"golang.org/x/sync/errgroup"

	"mainstay.dev/mainstay/internal/storage/kv/etcdtest"
)

const (
	// faultTime is the duration of a fault.
	faultTime = 500 * time.Millisecond
	// faultTimeout is the timeout of a request during a fault. recovery is the maximum time until requests
	// succeed after a fault.
	faultTimeout = 3 * time.Second
	recovery     = 2 * time.Minute
	roamers      = 6
)

// TestFaults injects one fault after another into three servers over three etcd members. Meanwhile, users read,
// write and watch through changing servers. Reads and writes must be linearizable, acknowledged writes must be
// stored, and the events of each watch must be exactly the changes, even if the watch has used several servers.
func TestFaults(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("skipped with -short: TestLinearizable kills servers over one etcd")
	}
	rng := random(t)
	f := newFaults(t, rng)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	working, workCtx := errgroup.WithContext(ctx)
	for _, r := range f.roamers {
		working.Go(func() error { return r.roam(workCtx) })
	}
	watching, watchCtx := errgroup.WithContext(ctx)
	for _, w := range f.watchers {
		watching.Go(func() error { return w.follow(watchCtx, f.start, f.end.Load) })
	}
	err := f.strike(workCtx, rng)
	f.over.Store(true)
	if err = errors.Join(err, working.Wait()); err != nil {
		cancel()
		t.Fatal(errors.Join(err, watching.Wait()))
	}
	if f.last, err = lastWrites(ctx, f.looker, "", &f.end); err != nil {
		t.Fatal(err)
	}
	if err := watching.Wait(); err != nil {
		t.Fatal(err)
	}
	f.verify(t)
}

// faults is the state of the test.
type faults struct {
	historian
	cluster  *etcdtest.Cluster
	roamers  []*roamer
	watchers []*watcher
	looker   *client
	start    int64
	end      atomic.Int64
	// succeeded counts successful requests. over is set to true after the last fault.
	succeeded atomic.Int64
	over      atomic.Bool
	// struck contains the names of the past faults. last contains the objects of the last writes.
	struck []string
	last   []object
}

func newFaults(t *testing.T, rng *rand.Rand) *faults {
	f := &faults{cluster: etcdtest.Start(t, etcdtest.Options{Members: 3})}
	f.started = time.Now()
	urls := "--etcd-servers=" + strings.Join(f.cluster.URLs(), ",")
	for range 3 {
		f.instances = append(f.instances, newInstance(t, urls, "--etcd-compaction-interval=0"))
	}
	f.looker = f.instances[0].client(t)
	var err error
	if _, f.start, _, err = f.looker.list(t.Context()); err != nil {
		t.Fatal(err)
	}
	for id := range roamers {
		r := &roamer{faults: f, clients: f.clients(t)}
		r.player = player{historian: &f.historian, user: &user{client: r.clients[0]}, id: id, rng: branch(rng), seen: map[string]int64{}}
		f.roamers = append(f.roamers, r)
	}
	for _, sel := range []selector{{}, {}, {}, {name: key(0)}, {name: key(1)}} {
		clients, own := f.clients(t), branch(rng)
		f.watchers = append(f.watchers, &watcher{
			received: watched{selector: sel}, rng: branch(rng), await: pause, roam: func() *client { return clients[own.IntN(len(clients))] },
		})
	}
	return f
}

// clients returns one client for each server.
func (f *faults) clients(t *testing.T) []*client {
	var all []*client
	for _, in := range f.instances {
		c := in.client(t)
		c.timeout = faultTimeout
		all = append(all, c)
	}
	return all
}

// pause waits before the next attempt to reach a server.
func pause(ctx context.Context) error {
	select {
	case <-time.After(20 * time.Millisecond):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// roamer is a user that switches to another server at random, and if a server does not respond.
type roamer struct {
	player
	*faults
	clients []*client
}

func (r *roamer) roam(ctx context.Context) error {
	for n := int64(1); !r.over.Load(); n++ {
		if r.rng.IntN(10) == 0 {
			r.user.client = r.clients[r.rng.IntN(len(r.clients))]
		}
		if err := r.request(ctx, n); err != nil {
			return err
		}
	}
	return nil
}

// request sends one request and records it. If the outcome of a write is unknown, the server may still execute
// the write at any later time.
func (r *roamer) request(ctx context.Context, n int64) error {
	in := r.choose(n)
	call := r.player.clock()
	got, out, err := r.send(ctx, in)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil && !errors.Is(err, errUnavailable):
		return fmt.Errorf("%s %s: %w", in.verb, in.key, err)
	case out == unknown:
		r.user.client.reconnect()
		r.user.client = r.clients[r.rng.IntN(len(r.clients))]
		if in.verb != reading {
			r.player.add(porcupine.Operation{ClientId: r.id, Input: in, Output: output{outcome: unknown}, Call: call, Return: math.MaxInt64})
		}
		return pause(ctx)
	}
	answer := output{outcome: out, revision: got.revision}
	if in.verb == reading {
		answer.value = got.value
	}
	if got.revision != 0 {
		r.seen[in.key] = got.revision
	}
	r.succeeded.Add(1)
	r.player.add(porcupine.Operation{ClientId: r.id, Input: in, Output: answer, Call: call, Return: r.player.clock()})
	return nil
}

// fault is a fault that the test begins and ends.
type fault struct {
	name       string
	begin, end func() error
}

// faults returns one fault of each kind. Each fault affects a random server or etcd member.
func (f *faults) faults(ctx context.Context, rng *rand.Rand) []fault {
	in := f.instances[rng.IntN(len(f.instances))]
	follower := f.cluster.Members[rng.IntN(len(f.cluster.Members))]
	leader := follower
	for _, m := range f.cluster.Members {
		if m.IsLeader() {
			leader = m
		}
	}
	does := func(do ...func()) func() error {
		return func() error {
			for _, do := range do {
				do()
			}
			return nil
		}
	}
	start := func() error { return in.Start(ctx) }
	return []fault{
		{"a server is killed", does(in.Kill), start},
		{"a server is stopped", in.Stop, start},
		{"a server is paused", in.Pause, in.Resume},
		{"the leader is stopped", does(leader.Stop), does(leader.Restart)},
		{"the leader is paused", does(leader.Pause), does(leader.Resume)},
		{"the leader is cut off", does(leader.Isolate), does(leader.Rejoin)},
		{"a member is cut off", does(follower.Isolate), does(follower.Rejoin)},
		{"a member does not answer", does(follower.Freeze), does(follower.Thaw)},
		{"two members are stopped", does(leader.Stop, f.other(leader).Stop), does(leader.Restart, f.other(leader).Restart)},
		{"connections break", does(follower.Disconnect), does(leader.Disconnect)},
		{"a disk is full", leader.RaiseNoSpace, leader.ClearNoSpace},
		{"members are defragmented", leader.Defragment, f.other(leader).Defragment},
		{"a disk is slow", func() error { return stutter(leader) }, does()},
	}
}

// other returns an etcd member that is not the given one.
func (f *faults) other(than *etcdtest.Member) *etcdtest.Member {
	for _, m := range f.cluster.Members {
		if m != than {
			return m
		}
	}
	return nil
}

// stutter repeatedly pauses an etcd member for a short time, as a slow disk would.
func stutter(m *etcdtest.Member) error {
	for until := time.Now().Add(faultTime); time.Now().Before(until); {
		m.Pause()
		time.Sleep(40 * time.Millisecond) // duration of the pause; it is the fault, not a wait for a condition
		m.Resume()
		time.Sleep(20 * time.Millisecond)
	}
	return nil
}

// strike injects faults in random order. After each fault, it waits until requests succeed again.
func (f *faults) strike(ctx context.Context, rng *rand.Rand) error {
	if err := f.awaitSuccess(ctx, 50); err != nil {
		return err
	}
	var kinds []int
	for range *faultsFlag {
		if len(kinds) == 0 {
			kinds = rng.Perm(len(f.faults(ctx, rng)))
		}
		fault := f.faults(ctx, rng)[kinds[0]]
		kinds = kinds[1:]
		if err := fault.strike(ctx); err != nil {
			return fmt.Errorf("%s: %w", fault.name, err)
		}
		if err := f.awaitSuccess(ctx, 50); err != nil {
			return fmt.Errorf("after %s: %w", fault.name, err)
		}
		f.struck = append(f.struck, fault.name)
	}
	return nil
}

func (f *fault) strike(ctx context.Context) error {
	if err := f.begin(); err != nil {
		return err
	}
	select {
	case <-time.After(faultTime): // duration of the fault
	case <-ctx.Done():
	}
	return f.end()
}

// awaitSuccess waits until the given number of further requests have succeeded.
func (f *faults) awaitSuccess(ctx context.Context, requests int64) error {
	want := f.succeeded.Load() + requests
	for until := time.Now().Add(recovery); f.succeeded.Load() < want; {
		if time.Now().After(until) {
			return fmt.Errorf("requests do not succeed, %s later", recovery)
		}
		if err := pause(ctx); err != nil {
			return err
		}
	}
	return nil
}

// verify compares all responses and events with the changes.
func (f *faults) verify(t *testing.T) {
	t.Helper()
	replay := &watcher{client: f.looker, await: func(context.Context) error { return errors.New("the server is gone") }}
	if err := replay.follow(t.Context(), f.start, f.end.Load); err != nil {
		t.Fatal(err)
	}
	happened := changesOf(replay.received.streams[0].events)
	for _, o := range f.last { // the revision of a last write may be greater than the end of the replay
		if o.revision > replay.received.streams[0].position() {
			happened = append(happened, event{modified, o})
		}
	}
	changes, err := changesIn(happened)
	if err != nil {
		t.Fatal(err)
	}
	events, streams := 0, 0
	for _, w := range f.watchers {
		if err := w.received.check(changes); err != nil {
			t.Error(err)
		}
		streams += len(w.received.streams)
		for _, s := range w.received.streams {
			events += len(changesOf(s.events))
		}
	}
	history, err := settled(f.history, happened)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d changes; %d events over %d connections; %s", len(changes), events, streams, strings.Join(f.struck, ", "))
	if err := revisionsGrow(history); err != nil {
		t.Error(err)
	}
	checkLinearizable(t, history)
}

// changesIn returns the changes that the events of a watch of all objects describe.
func changesIn(events []event) ([]change, error) {
	var puts, deletions []object
	for _, e := range events {
		if e.kind == deleted {
			deletions = append(deletions, e.object)
		} else {
			puts = append(puts, e.object)
		}
	}
	return chronicle(nil, puts, deletions)
}

// settled resolves the writes with an unknown outcome. It keeps a write if happened contains an event for it,
// and removes the write otherwise. It returns an error if an acknowledged write has no event, or if no request
// explains an event.
func settled(history []porcupine.Operation, happened []event) ([]porcupine.Operation, error) {
	byRevision, byValue, removed := map[int64]event{}, map[string]event{}, map[string]int{}
	for _, e := range happened {
		byRevision[e.revision] = e
		if e.kind == deleted {
			removed[e.name]++
		} else {
			byValue[e.value] = e
		}
	}
	for _, op := range history {
		in, out := op.Input.(input), op.Output.(output)
		if in.verb == reading || out.outcome != done {
			continue
		}
		e, found := byRevision[out.revision]
		if !found || e.name != in.key || (e.kind == deleted) != (in.verb == removing) || in.verb != removing && e.value != in.value {
			return nil, fmt.Errorf("%s, and what happened is %s (%t)", describe(in, out), e, found)
		}
		if in.verb == removing {
			removed[in.key]--
		}
	}
	var known []porcupine.Operation
	asked := map[string]bool{"last": true, "after it": true}
	for _, op := range history {
		in, out := op.Input.(input), op.Output.(output)
		asked[in.value] = true
		if out.outcome == unknown {
			e, found := byValue[in.value]
			switch {
			case in.verb == removing && removed[in.key] <= 0, in.verb != removing && !found:
				continue
			case in.verb != removing:
				op.Output = output{outcome: done, revision: e.revision}
			}
		}
		known = append(known, op)
	}
	for value, e := range byValue {
		if !asked[value] {
			return nil, fmt.Errorf("no request caused %s", e)
		}
	}
	return known, nil
}
