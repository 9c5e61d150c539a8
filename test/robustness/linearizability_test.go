package robustness

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"golang.org/x/sync/errgroup"

	"mainstay.dev/mainstay/internal/storage/kv/etcdtest"
)

const (
	histories     = 8 // number of concurrent users
	historyKeys   = 5
	historyBreaks = 6 // number of restarts
	checkTimeout  = 2 * time.Minute
)

// TestLinearizable checks that concurrent reads and writes of a few objects are linearizable while the server
// is stopped and killed, that is, that each request appears to be executed at a single point in time between
// its start and its response.
func TestLinearizable(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		etcd  int // number of servers over one etcd; 0 for a server with the embedded store
		flags []string
		short bool // the history is also recorded with -short
	}{
		{"cached", 0, nil, true},
		{"uncached", 0, []string{"--watch-cache=false"}, false},
		{"etcd cached", 1, nil, false},
		{"etcd uncached", 1, []string{"--watch-cache=false"}, false},
		{"etcd shared", 3, nil, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if testing.Short() && !tt.short {
				t.Skip("the histories cached and etcd shared cover the model with -short")
			}
			rng := random(t)
			flags := tt.flags
			if tt.etcd > 0 {
				cluster := etcdtest.Start(t, etcdtest.Options{})
				flags = append(flags, "--etcd-servers="+strings.Join(cluster.URLs(), ","))
			}
			var instances []*instance
			for range max(tt.etcd, 1) {
				instances = append(instances, newInstance(t, flags...))
			}
			history := record(t, instances, rng)
			if err := revisionsGrow(history); err != nil {
				t.Error(err)
			}
			checkLinearizable(t, history)
		})
	}
}

func checkLinearizable(t *testing.T, history []porcupine.Operation) {
	t.Helper()
	outcomes := map[outcome]int{}
	for _, op := range history {
		outcomes[op.Output.(output).outcome]++
	}
	t.Logf("%d operations: %v", len(history), outcomes)
	result, info := porcupine.CheckOperationsVerbose(model(), history, checkTimeout)
	if result == porcupine.Ok {
		return
	}
	path := filepath.Join(t.ArtifactDir(), "history.html")
	if err := porcupine.VisualizePath(model(), info, path); err != nil {
		t.Error(err)
	}
	t.Errorf("the history is not linearizable: %s; see %s, kept with -artifacts", result, path)
}

// historian records the requests of users and their responses. All its instances use the same store.
type historian struct {
	instances []*instance
	started   time.Time
	count     atomic.Int64
	mu        sync.Mutex
	history   []porcupine.Operation
}

// record lets users send requests while the servers are restarted, and returns the history.
func record(t *testing.T, instances []*instance, rng *rand.Rand) []porcupine.Operation {
	h := &historian{instances: instances, started: time.Now()}
	group, ctx := errgroup.WithContext(t.Context())
	for id := range histories {
		p := &player{historian: h, user: instances[id%len(instances)].user(t), id: id, rng: branch(rng), seen: map[string]int64{}}
		group.Go(func() error { return p.play(ctx) })
	}
	group.Go(func() error { return h.disturb(ctx, branch(rng)) })
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	return h.history
}

// disturb restarts the servers in turn, with SIGTERM or SIGKILL. The restarts are distributed over the run.
func (h *historian) disturb(ctx context.Context, rng *rand.Rand) error {
	poll := time.NewTicker(time.Millisecond)
	defer poll.Stop()
	for i := range historyBreaks {
		for h.count.Load() < int64((i+1)**operationsFlag/(historyBreaks+1)) {
			select {
			case <-poll.C:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		if err := h.instances[i%len(h.instances)].restart(ctx, i%2 == 0, rng, nil); err != nil {
			return err
		}
	}
	return nil
}

func (h *historian) clock() int64 { return int64(time.Since(h.started)) }

func (h *historian) add(op porcupine.Operation) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.history = append(h.history, op)
}

// player is a user of the linearizability test.
type player struct {
	*historian
	*user
	id  int
	rng *rand.Rand
	// seen contains the revision that each object had in the last response.
	seen map[string]int64
}

func (p *player) play(ctx context.Context) error {
	for {
		n := p.count.Add(1)
		if n > int64(*operationsFlag) {
			return nil
		}
		var err error
		if p.rng.IntN(20) == 0 {
			err = p.listAll(ctx)
		} else {
			err = p.single(ctx, p.choose(n))
		}
		if err != nil {
			return err
		}
	}
}

func key(i int) string { return fmt.Sprintf("key-%d", i) }

// choose returns a random request. n makes the value that a write stores unique.
func (p *player) choose(n int64) input {
	in := input{key: key(p.rng.IntN(historyKeys)), value: fmt.Sprintf("%d-%d", p.id, n)}
	conditional := p.rng.IntN(2) == 0
	switch roll := p.rng.IntN(10); {
	case roll < 3:
		return input{verb: reading, key: in.key}
	case roll < 5:
		in.verb = creating
		return in
	case roll < 8:
		in.verb = updating
	default:
		in.verb, in.value = removing, ""
	}
	if conditional {
		in.require = p.seen[in.key]
	}
	return in
}

// single sends a request for one object and records it.
func (p *player) single(ctx context.Context, in input) error {
	var got object
	call := p.clock()
	out, err := p.request(func() (result outcome, err error) {
		got, result, err = p.send(ctx, in)
		return result, err
	})
	if err != nil {
		return fmt.Errorf("%s %s: %w", in.verb, in.key, err)
	}
	answer := output{outcome: out, revision: got.revision}
	if in.verb == reading {
		answer.value = got.value
	}
	if out == unknown {
		if err := p.restarted(ctx); err != nil {
			return err
		}
		if in.verb == reading {
			return nil
		}
	}
	if got.revision != 0 {
		p.seen[in.key] = got.revision
	}
	p.add(porcupine.Operation{ClientId: p.id, Input: in, Output: answer, Call: call, Return: p.clock()})
	return nil
}

func (p *player) send(ctx context.Context, in input) (object, outcome, error) {
	o := object{name: in.key, value: in.value, revision: in.require}
	switch in.verb {
	case creating:
		return p.create(ctx, o)
	case updating:
		return p.update(ctx, o)
	case removing:
		return p.remove(ctx, in.key, in.require)
	default:
		return p.get(ctx, in.key)
	}
}

// listAll sends a list and records it as simultaneous reads of all objects.
func (p *player) listAll(ctx context.Context) error {
	var objects map[string]object
	var revision int64
	call := p.clock()
	out, err := p.request(func() (result outcome, err error) {
		objects, revision, result, err = p.list(ctx)
		return result, err
	})
	if err != nil {
		return fmt.Errorf("list: %w", err)
	}
	if out == unknown {
		return p.restarted(ctx)
	}
	end := p.clock()
	for i := range historyKeys {
		answer := output{outcome: missing}
		if o, ok := objects[key(i)]; ok {
			answer = output{outcome: done, value: o.value, revision: o.revision}
			p.seen[key(i)] = o.revision
		}
		if answer.revision > revision {
			return fmt.Errorf("a list at revision %d has %s at revision %d", revision, key(i), answer.revision)
		}
		p.add(porcupine.Operation{ClientId: p.id, Input: input{verb: reading, key: key(i)}, Output: answer, Call: call, Return: end})
	}
	return nil
}
