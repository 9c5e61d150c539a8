package garbage

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/util/uuid"

	"mainstay.dev/mainstay/internal/controllers/changes"
)

func TestGraph(t *testing.T) {
	t.Parallel()
	g := newGraph()
	a, b := parseUID("9d0a1f60-6d2f-4f0e-8f39-1c5b0f4c1a01"), parseUID("not a uuid")
	pod, other, cluster := g.objectAt("pods", "x", "p"), g.objectAt("example.com/ws", "y", "w"), g.objectAt("nodes", "", "n")
	g.add(a, false, pod)
	g.add(a, true, other)
	g.add(b, false, cluster)
	if got, complete := g.dependents(a); !slices.Equal(got, []object{other, pod}) || complete {
		t.Errorf("dependents %v", got)
	}
	if any, blocking := g.hasDependents(parseUID("none")); !any || !blocking {
		t.Error("an incomplete graph reported that there are no dependents")
	}
	g.setComplete()
	for _, tt := range []struct {
		owner         uid
		any, blocking bool
	}{{a, true, true}, {b, true, false}, {parseUID("none"), false, false}} {
		if any, blocking := g.hasDependents(tt.owner); any != tt.any || blocking != tt.blocking {
			t.Errorf("%x: has dependents %t, blocking %t", tt.owner, any, blocking)
		}
	}
	g.remove(a, true, other)
	g.remove(a, true, pod) // no effect, because the pod does not block
	if got, complete := g.dependents(a); !slices.Equal(got, []object{pod}) || !complete {
		t.Errorf("dependents %v", got)
	}
	for o, want := range map[object][3]string{pod: {"pods", "x", "p"}, other: {"example.com/ws", "y", "w"}, cluster: {"nodes", "", "n"}} {
		if path, namespace, name := g.location(o); want != [3]string{path, namespace, name} {
			t.Errorf("%v is %s %s %s", o, path, namespace, name)
		}
	}
	g.setTerminating(a, cluster, true)
	if o, ok := g.terminatingOwner(a); !ok || o != cluster || !g.isTerminating(cluster) || g.isTerminating(pod) {
		t.Errorf("terminating: %v, %t", o, ok)
	}
	g.reset()
	if got, complete := g.dependents(a); len(got) > 0 || complete || g.isTerminating(cluster) || g.objectAt("pods", "x", "p") != pod {
		t.Error("after reset, the graph is not empty or path numbers changed")
	}
}

// TestManyOwners replaces as many owner references as fit into large objects. The time must be linear, because
// all controllers wait for it; comparing all pairs would take minutes.
func TestManyOwners(t *testing.T) {
	t.Parallel()
	const n = 100_000
	owners := func(first int) (list []changes.Owner) {
		for i := range n {
			list = append(list, changes.Owner{APIVersion: "v1", Kind: "Pod", Name: "a", UID: fmt.Sprint(first + i)})
		}
		return list
	}
	w := &worker{Collector: &Collector{config: Config{KeepUnknownOwners: true}}, graph: newGraph()}
	o := w.graph.objectAt("pods", "x", "p")
	w.ownersChanged(o, "x", nil, owners(0))
	w.ownersChanged(o, "x", owners(0), owners(n-1))
	for id, want := range map[int]int{0: 0, n - 2: 0, n - 1: 1, 2*n - 2: 1} {
		if got, _ := w.graph.dependents(parseUID(fmt.Sprint(id))); len(got) != want {
			t.Errorf("owner %d has %d dependents, want %d", id, len(got), want)
		}
	}
}

// BenchmarkGraph measures the memory per dependent, for the pods of ReplicaSets with three pods each.
func BenchmarkGraph(b *testing.B) {
	const n = 300_000
	for b.Loop() {
		before := heap()
		g := newGraph()
		for i := range n / 3 {
			owner := parseUID(string(uuid.NewUUID()))
			for range 3 {
				g.add(owner, true, g.objectAt("pods", "default", fmt.Sprintf("web-%x-%x", i, rand.Uint32())))
			}
		}
		b.ReportMetric(float64(heap()-before)/n, "B/dependent")
		runtime.KeepAlive(g)
	}
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
