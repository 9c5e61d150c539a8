package cache_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/rest"
	"mainstay.dev/mainstay/internal/storage"
	"mainstay.dev/mainstay/internal/storage/cache"
	"mainstay.dev/mainstay/internal/storage/storagetest"
)

// indexing is a store and its cache with pods that move randomly between nodes.
type indexing struct {
	*testing.T
	rng    *rand.Rand
	store  *storage.Store
	cacher *cache.Cacher
}

// page is the result of a list.
type page struct {
	Items    []string
	Revision int64
	Continue string
}

func newIndexing(t *testing.T, seed uint64) *indexing {
	backend := openEmbedded(t, t.TempDir())
	t.Cleanup(func() { backend.Close() })
	store := storagetest.Pods(t, backend)
	feed := startFeed(t, cache.FeedConfig{Backend: backend, Prefix: root(store)})
	return &indexing{T: t, rng: rand.New(rand.NewPCG(seed, 0)), store: store, cacher: newCacher(t, store, feed)}
}

// change creates a random pod on a node, or moves, updates or deletes it.
func (x *indexing) change() {
	name := types.NamespacedName{Namespace: "ns" + strconv.Itoa(x.rng.IntN(3)), Name: "p" + strconv.Itoa(x.rng.IntN(20))}
	if x.rng.IntN(4) == 0 {
		if _, err := x.cacher.Delete(x.Context(), name, nil, storage.UpdateOptions{}); err != nil && !errors.Is(err, storage.ErrNotFound) {
			x.Fatal(err)
		}
		return
	}
	node := "node" + strconv.Itoa(x.rng.IntN(4))
	if node == "node0" {
		node = ""
	}
	move := func(current *codec.Record) (codec.Object, storage.WriteOptions, error) {
		pod := storagetest.Pod(name.Namespace, name.Name, "touched="+strconv.Itoa(x.rng.IntN(1000)))
		pod.Spec.NodeName = node
		if current != nil {
			obj, err := current.Object()
			if err != nil {
				return nil, storage.WriteOptions{}, err
			}
			pod.UID = obj.(*corev1.Pod).UID
		}
		return pod, storage.WriteOptions{}, nil
	}
	if _, err := x.cacher.Update(x.Context(), name, move, storage.UpdateOptions{}); err != nil {
		x.Fatal(err)
	}
}

func (x *indexing) list(s storage.Interface, namespace string, options rest.ListOptions) page {
	x.Helper()
	list, err := s.List(x.Context(), namespace, options)
	if err != nil {
		x.Fatal(err)
	}
	p := page{Revision: list.Revision}
	for record, err := range list.Items {
		if err != nil {
			x.Fatal(err)
		}
		p.Items = append(p.Items, fmt.Sprint(record.Name(), record.Revision()))
	}
	p.Continue = list.Continue
	return p
}

// TestIndexedLists compares lists from an index with lists from the store, page by page, while pods
// are created, moved and deleted.
func TestIndexedLists(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	x := newIndexing(t, seed)
	type reading struct {
		namespace string
		options   rest.ListOptions
	}
	var open []reading
	for range 400 {
		for range x.rng.IntN(4) {
			x.change()
		}
		r := reading{namespace: []string{"", "ns1"}[x.rng.IntN(2)]}
		r.options.Fields = fields.ParseSelectorOrDie([]string{
			"spec.nodeName=node1", "spec.nodeName=node2", "spec.nodeName=", "spec.nodeName=none",
			"spec.nodeName=node3,metadata.name!=p7", "spec.nodeName=node1,metadata.namespace=ns2",
		}[x.rng.IntN(6)])
		r.options.Limit = int64(x.rng.IntN(4))
		open = append(open, r)
		for i := 0; i < len(open); i++ {
			r := &open[i]
			want := x.list(x.store, r.namespace, r.options)
			got := x.list(x.cacher, r.namespace, r.options)
			if got.Continue == "" && want.Continue != "" {
				// The index detects that this is the last page. The store may return an empty
				// page after it.
				following := r.options
				following.Continue, following.Limit = want.Continue, 0
				if n := len(x.list(x.store, r.namespace, following).Items); n == 0 {
					want.Continue = ""
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("%q %v limit %d continue %q: %s", r.namespace, r.options.Fields, r.options.Limit, r.options.Continue, diff)
			}
			if r.options.Continue = got.Continue; got.Continue == "" {
				open = slices.Delete(open, i, i+1)
				i--
			}
		}
	}
}

// TestIndexedWatch compares a watch of the pods of one node with the expected events.
func TestIndexedWatch(t *testing.T) {
	t.Parallel()
	x := newIndexing(t, 1)
	for range 60 {
		x.change()
	}
	yes := true
	options := rest.ListOptions{
		Fields: fields.ParseSelectorOrDie("spec.nodeName=node1"), SendInitialEvents: &yes,
		ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan,
	}
	want := x.list(x.store, "", rest.ListOptions{Fields: options.Fields}).Items
	w, err := x.cacher.Watch(t.Context(), "", options)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	var got []string
	for len(got) < len(want) {
		events, err := w.Next(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		for _, ev := range events {
			got = append(got, fmt.Sprint(ev.Record.Name(), ev.Record.Revision()))
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
