package cache_test

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/rest"
	"mainstay.dev/mainstay/internal/storage"
	"mainstay.dev/mainstay/internal/storage/storagetest"
)

// label creates a random pod, changes its labels, or deletes it.
func (x *indexing) label() {
	name := types.NamespacedName{Namespace: "ns" + strconv.Itoa(x.rng.IntN(2)), Name: "p" + strconv.Itoa(x.rng.IntN(5))}
	if x.rng.IntN(4) == 0 {
		_, _ = x.cacher.Delete(x.Context(), name, nil, storage.UpdateOptions{}) // the pod might not exist
		return
	}
	labels := []string{"touched=" + strconv.Itoa(x.rng.IntN(1000))}
	for _, label := range []string{"app=a", "app=b", "app=", "tier=a"} {
		if x.rng.IntN(3) == 0 {
			labels = append(labels, label)
		}
	}
	change := func(*codec.Record) (codec.Object, storage.WriteOptions, error) {
		return storagetest.Pod(name.Namespace, name.Name, labels...), storage.WriteOptions{}, nil
	}
	if _, err := x.cacher.Update(x.Context(), name, change, storage.UpdateOptions{}); err != nil {
		x.Fatal(err)
	}
}

// events returns the events of a watch up to a revision. A later event must follow.
func (x *indexing) events(w rest.Watch, until int64) (seen []string) {
	x.Helper()
	for {
		events, err := w.Next(x.Context())
		if err != nil {
			x.Fatal(err)
		}
		for _, ev := range events {
			if ev.Record.Revision() > until {
				return seen
			}
			seen = append(seen, fmt.Sprint(ev.Type, ev.Record.Name(), ev.Record.Revision()))
		}
	}
}

// TestLabelWatches compares watches that are woken by labels with watches of the store, while pods
// are created, relabeled and deleted.
func TestLabelWatches(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	x := newIndexing(t, seed)
	x.label()
	type pair struct {
		about          string
		cached, stored rest.Watch
	}
	var pairs []pair
	watch := func(s storage.Interface, namespace, selector string) rest.Watch {
		chosen, err := labels.Parse(selector)
		if err != nil {
			t.Fatal(err)
		}
		w, err := s.Watch(t.Context(), namespace, rest.ListOptions{Labels: chosen, ResourceVersion: "1"})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = w.Close() })
		return w
	}
	for _, namespace := range []string{"", "ns1"} {
		for _, selector := range []string{"app=a", "app in (b)", "app=", "app!=a", "app", "!app", "tier=a,app=b", "app in (a,b),tier=a", "app=none"} {
			about := fmt.Sprintf("%s in %q", selector, namespace)
			pairs = append(pairs, pair{about, watch(x.cacher, namespace, selector), watch(x.store, namespace, selector)})
		}
	}
	for range 300 {
		x.label()
	}
	last := x.list(x.store, "", rest.ListOptions{}).Revision
	for i, marked := range [][]string{{"app=a"}, {"app=b"}, {"app="}, {"tier=a"}, {"tier=a", "app=b"}, {"app=none"}} {
		if _, err := x.cacher.Create(t.Context(), storagetest.Pod("ns1", fmt.Sprint("end", i), marked...), storage.WriteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for _, p := range pairs {
		if diff := cmp.Diff(x.events(p.stored, last), x.events(p.cached, last)); diff != "" {
			t.Errorf("%s: events differ (-stored +cached):\n%s", p.about, diff)
		}
	}
}
