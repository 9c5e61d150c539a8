package cache_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/rest"
	"mainstay.dev/mainstay/internal/storage"
	"mainstay.dev/mainstay/internal/storage/cache"
	"mainstay.dev/mainstay/internal/storage/kv"
	"mainstay.dev/mainstay/internal/storage/storagetest"
)

// breakable is a backend that can interrupt its watches and refuse new ones.
type breakable struct {
	kv.Backend
	mu     sync.Mutex
	broken bool
	open   []kv.Watch
}

var errBroken = errors.New("the connection is broken")

func (b *breakable) Watch(ctx context.Context, start, end string, from kv.Revision) (kv.Watch, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.broken {
		return nil, errBroken
	}
	w, err := b.Backend.Watch(ctx, start, end, from)
	b.open = append(b.open, w)
	return w, err
}

func (b *breakable) set(broken bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.broken = broken
	if broken {
		for _, w := range b.open {
			w.Stop()
		}
		b.open = nil
	}
}

type fixture struct {
	testing.TB
	ctx     context.Context
	backend *breakable
	store   *storage.Store
	cacher  *cache.Cacher
}

func newFixture(t testing.TB, limits cache.LogLimits) *fixture {
	raw := storagetest.InMemory(t)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	f := &fixture{TB: t, ctx: ctx, backend: &breakable{Backend: raw}}
	f.store = f.newStore("pods", nil)
	f.cacher = newCacher(t, f.store, startFeed(t, cache.FeedConfig{Backend: f.backend, Prefix: "/registry", Log: limits}))
	return f
}

func (f *fixture) newStore(prefix string, transformer storage.Transformer) *storage.Store {
	store, err := storage.New(storage.Config{
		Backend: f.backend, ResourcePrefix: prefix, Kind: storagetest.PodKind(), Namespaced: true,
		GroupResource: schema.GroupResource{Resource: prefix}, Transformer: transformer,
	})
	if err != nil {
		f.Fatal(err)
	}
	return store
}

func (f *fixture) create(name string) *codec.Record {
	f.Helper()
	record, err := f.cacher.Create(f.ctx, storagetest.Pod("ns", name), storage.WriteOptions{})
	if err != nil {
		f.Fatal(err)
	}
	return record
}

func (f *fixture) names(s storage.Interface) string {
	f.Helper()
	list, err := s.List(f.ctx, "", rest.ListOptions{})
	if err != nil {
		f.Fatal(err)
	}
	var names []string
	for record, err := range list.Items {
		if err != nil {
			f.Fatal(err)
		}
		names = append(names, record.Name().Name)
	}
	return strings.Join(names, " ")
}

func (f *fixture) watch(s storage.Interface, namespace string, options rest.ListOptions) rest.Watch {
	f.Helper()
	w, err := s.Watch(f.ctx, namespace, options)
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { w.Close() })
	return w
}

func (f *fixture) expect(w rest.Watch, want ...*codec.Record) {
	f.Helper()
	var got []rest.Event
	for len(got) < len(want) {
		events, err := w.Next(f.ctx)
		if err != nil {
			f.Fatalf("after %d of %d events: %v", len(got), len(want), err)
		}
		got = append(got, events...)
	}
	for i, ev := range got {
		if ev.Record.Revision() != want[i].Revision() || ev.Record.Name() != want[i].Name() {
			f.Fatalf("event %d is %s at %d, want %s at %d", i, ev.Record.Name(), ev.Record.Revision(), want[i].Name(), want[i].Revision())
		}
	}
}

func TestFeedRestarts(t *testing.T) {
	t.Parallel()
	f := newFixture(t, cache.LogLimits{})
	a := f.create("a")
	w := f.watch(f.cacher, "ns", rest.ListOptions{})
	f.expect(w, a)
	f.backend.set(true)
	b := f.create("b")
	f.backend.set(false)
	c := f.create("c")
	f.expect(w, b, c)
	if got := f.names(f.cacher); got != "a b c" {
		t.Errorf("list after a restart: %q", got)
	}
}

// TestReadsWhileFeedIsBroken checks that reads are correct, although slower, while events are not
// delivered.
func TestReadsWhileFeedIsBroken(t *testing.T) {
	t.Parallel()
	f := newFixture(t, cache.LogLimits{})
	f.create("a")
	f.names(f.cacher)
	f.backend.set(true)
	f.create("b")
	if got := f.names(f.cacher); got != "a b" {
		t.Errorf("list: %q", got)
	}
	if _, err := f.cacher.Get(f.ctx, types.NamespacedName{Namespace: "ns", Name: "b"}, storage.ReadOptions{}); err != nil {
		t.Errorf("get: %v", err)
	}
}

func TestReloadAfterCompaction(t *testing.T) {
	t.Parallel()
	f := newFixture(t, cache.LogLimits{})
	a := f.create("a")
	w := f.watch(f.cacher, "ns", rest.ListOptions{})
	f.expect(w, a)
	f.backend.set(true)
	f.create("b")
	c := f.create("c")
	if err := f.backend.Compact(f.ctx, kv.Revision(c.Revision())); err != nil {
		t.Fatal(err)
	}
	f.backend.set(false)
	if got := f.names(f.cacher); got != "a b c" {
		t.Errorf("list: %q", got)
	}
	if _, err := w.Next(f.ctx); !errors.Is(err, storage.ErrExpired) {
		t.Errorf("watch that missed changes: %v, want ErrExpired", err)
	}
	w = f.watch(f.cacher, "ns", rest.ListOptions{ResourceVersion: fmt.Sprint(c.Revision())})
	f.expect(w, f.create("d"))
}

// TestExpiry checks that older continue tokens and exact revisions expire after a compaction, even for a
// resource that has not changed since then.
func TestExpiry(t *testing.T) {
	t.Parallel()
	f := newFixture(t, cache.LogLimits{})
	first := f.create("a")
	f.create("b")
	list := func(options rest.ListOptions) (*rest.List, error) {
		found, err := f.cacher.List(f.ctx, "ns", options)
		if err != nil {
			return nil, err
		}
		for _, err = range found.Items {
			if err != nil {
				return nil, err
			}
		}
		return found, nil
	}
	page, err := list(rest.ListOptions{Limit: 1})
	if err != nil {
		t.Fatal(err)
	}
	later := []rest.ListOptions{
		{Limit: 1, Continue: page.Continue},
		{ResourceVersion: fmt.Sprint(page.Revision), ResourceVersionMatch: metav1.ResourceVersionMatchExact},
	}
	for _, options := range later {
		if _, err := list(options); err != nil {
			t.Errorf("%+v before the compaction: %v", options, err)
		}
	}
	other, err := f.newStore("others", nil).Create(f.ctx, storagetest.Pod("ns", "a"), storage.WriteOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := f.backend.Compact(f.ctx, kv.Revision(other.Revision())); err != nil {
		t.Fatal(err)
	}
	for _, options := range append(later, rest.ListOptions{ResourceVersion: fmt.Sprint(first.Revision()), ResourceVersionMatch: metav1.ResourceVersionMatchExact}) {
		if _, err := list(options); !apierrors.IsResourceExpired(err) {
			t.Errorf("%+v after the compaction: %v; want a 410", options, err)
		}
	}
	if _, err := list(rest.ListOptions{ResourceVersion: fmt.Sprint(other.Revision()), ResourceVersionMatch: metav1.ResourceVersionMatchExact}); err != nil {
		t.Errorf("at the compacted revision: %v", err)
	}
}

// TestWholeCommits checks that no list contains only part of a transaction.
func TestWholeCommits(t *testing.T) {
	t.Parallel()
	f := newFixture(t, cache.LogLimits{})
	value := func(x string) []byte {
		b, err := storagetest.PodKind().EncodeStored(t.Context(), storagetest.Pod("n", "p", "x="+x))
		if err != nil {
			t.Error(err)
		}
		return b
	}
	var group sync.WaitGroup
	group.Go(func() {
		for i := range 200 {
			x := fmt.Sprint(i)
			var ops []kv.Op
			for _, key := range []string{"/registry/pods/n1/p", "/registry/other/x", "/registry/pods/n2/p"} {
				ops = append(ops, kv.Op{Key: key, Expect: kv.AnyRevision, Value: value(x)})
			}
			if _, err := f.backend.Commit(f.ctx, ops...); err != nil {
				t.Error(err)
			}
		}
	})
	for range 500 {
		list, err := f.cacher.List(f.ctx, "", rest.ListOptions{ResourceVersion: "0"})
		if err != nil {
			t.Fatal(err)
		}
		seen := map[int64]int{}
		for record, err := range list.Items {
			if err != nil {
				t.Fatal(err)
			}
			seen[record.Revision()]++
		}
		if len(seen) > 1 {
			t.Fatalf("a list at %d shows revisions %v", list.Revision, seen)
		}
	}
	group.Wait()
}

// undecryptable is a Transformer that cannot decrypt some values.
type undecryptable struct{ storage.Identity }

func (undecryptable) FromStorage(_ context.Context, data []byte, _ string) ([]byte, bool, error) {
	if string(data) == "unreadable" {
		return nil, false, errors.New("no key for this value")
	}
	return data, false, nil
}

// TestUnreadable checks that lists and watches return an error for an unreadable value.
func TestUnreadable(t *testing.T) {
	t.Parallel()
	f := newFixture(t, cache.LogLimits{})
	f.store = f.newStore("secrets", undecryptable{})
	f.cacher = newCacher(t, f.store, startFeed(t, cache.FeedConfig{Backend: f.backend, Prefix: "/registry"}))
	a := f.create("a")
	w := f.watch(f.cacher, "ns", rest.ListOptions{})
	f.expect(w, a)
	if _, err := f.backend.Commit(f.ctx, kv.Op{Key: "/registry/secrets/ns/b", Value: []byte("unreadable")}); err != nil {
		t.Fatal(err)
	}
	if events, err := w.Next(f.ctx); err == nil || !strings.Contains(err.Error(), "no key for this value") {
		t.Errorf("watch: %v, %v", events, err)
	}
	if _, err := f.cacher.List(f.ctx, "ns", rest.ListOptions{}); err == nil || !strings.Contains(err.Error(), "no key for this value") {
		t.Errorf("list: %v", err)
	}
	if _, err := f.cacher.Get(f.ctx, a.Name(), storage.ReadOptions{}); err != nil {
		t.Errorf("get of a readable object: %v", err)
	}
}

// TestSameAsStore compares random watches of a cache and of its store, some read immediately and
// some late.
func TestSameAsStore(t *testing.T) {
	t.Parallel()
	for _, limits := range []cache.LogLimits{{}, {Changes: 5}, {Changes: 40}} {
		t.Run(fmt.Sprint(limits.Changes), func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, limits)
			random := rand.New(rand.NewPCG(1, uint64(limits.Changes)))
			first := f.create("first")
			var group sync.WaitGroup
			written := make(chan struct{})
			for i := range 300 {
				if i%5 == 0 {
					namespace, options := randomSelection(random, first.Revision()+random.Int64N(int64(i)+1))
					pair := [2]rest.Watch{f.watch(f.store, namespace, options), f.watch(f.cacher, namespace, options)}
					if random.IntN(2) == 0 {
						pair[1] = newPolling(pair[1])
					}
					late := i%2 == 0
					group.Go(func() {
						if late {
							<-written
						}
						f.same(pair, fmt.Sprintf("%s %+v", namespace, options))
					})
				}
				f.randomWrite(random)
			}
			// Final changes that every selection contains.
			for _, name := range []string{"p0", "p1", "p2"} {
				for _, namespace := range []string{"ns", "ns2"} {
					f.write(namespace, name, "end", "n0", "stop")
				}
			}
			close(written)
			group.Wait()
		})
	}
}

func randomSelection(random *rand.Rand, revision int64) (string, rest.ListOptions) {
	options := rest.ListOptions{ResourceVersion: fmt.Sprint(revision)}
	if random.IntN(4) == 0 {
		options.ResourceVersion = ""
	}
	switch random.IntN(4) {
	case 0:
		options.Fields = fields.ParseSelectorOrDie("spec.nodeName=n0")
	case 1:
		options.Fields = fields.ParseSelectorOrDie("metadata.name=p" + fmt.Sprint(random.IntN(3)))
	case 2:
		options.Labels = labels.SelectorFromSet(labels.Set{"x": "end"})
	}
	return []string{"", "ns", "ns2"}[random.IntN(3)], options
}

func (f *fixture) randomWrite(random *rand.Rand) {
	f.Helper()
	namespace := []string{"ns", "ns2"}[random.IntN(2)]
	name := fmt.Sprintf("p%d", random.IntN(3))
	if random.IntN(4) == 0 {
		_, err := f.cacher.Delete(f.ctx, types.NamespacedName{Namespace: namespace, Name: name}, nil, storage.UpdateOptions{})
		if err != nil && !errors.Is(err, storage.ErrNotFound) {
			f.Fatal(err)
		}
		return
	}
	f.write(namespace, name, []string{"a", "end"}[random.IntN(2)], fmt.Sprintf("n%d", random.IntN(3)), fmt.Sprint(random.Int64()))
}

func (f *fixture) write(namespace, name, x, node, note string) {
	f.Helper()
	_, err := f.cacher.Update(f.ctx, types.NamespacedName{Namespace: namespace, Name: name}, func(*codec.Record) (codec.Object, storage.WriteOptions, error) {
		pod := storagetest.Pod(namespace, name, "x="+x)
		pod.Spec.NodeName = node
		pod.Annotations = map[string]string{"note": note}
		return pod, storage.WriteOptions{}, nil
	}, storage.UpdateOptions{})
	if err != nil {
		f.Fatal(err)
	}
}

// same compares the events of two watches up to an event of an object with the note "stop".
func (f *fixture) same(pair [2]rest.Watch, selection string) {
	var seen [2][]string
	for i, w := range pair {
		for stopped := false; !stopped; {
			events, err := w.Next(f.ctx)
			if err != nil {
				f.Errorf("watch of %s: %v", selection, err)
				return
			}
			for _, ev := range events {
				obj, err := ev.Record.Shared()
				if err != nil {
					f.Error(err)
					return
				}
				note := obj.GetAnnotations()["note"]
				seen[i] = append(seen[i], fmt.Sprint(ev.Type, " ", ev.Record.Name(), " ", ev.Record.Revision(), " ", note))
				if stopped = note == "stop"; stopped {
					break
				}
			}
		}
	}
	if diff := cmp.Diff(seen[0], seen[1]); diff != "" {
		f.Errorf("watch of %s: the store's differs from the cache's:\n%s", selection, diff)
	}
}

// TestForeignWrites checks events without the record of the writer, such as events of writes by another
// server.
func TestForeignWrites(t *testing.T) {
	t.Parallel()
	f := newFixture(t, cache.LogLimits{})
	foreign := f.newStore("pods", nil) // its own Kind prevents shared records
	on := rest.ListOptions{Fields: fields.ParseSelectorOrDie("spec.nodeName=n1")}
	w := f.watch(f.cacher, "", on)
	pod := storagetest.Pod("ns", "a")
	pod.Spec.NodeName = "n1"
	created, err := foreign.Create(f.ctx, pod, storage.WriteOptions{})
	if err != nil {
		t.Fatal(err)
	}
	deleted, err := foreign.Delete(f.ctx, created.Name(), nil, storage.UpdateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	f.expect(w, created, deleted)
	if got := f.names(f.cacher); got != "" {
		t.Errorf("list: %q", got)
	}
}

// TestMetrics compares names and labels with kube-apiserver's.
func TestMetrics(t *testing.T) {
	t.Parallel()
	f := newFixture(t, cache.LogLimits{})
	registry := prometheus.NewPedanticRegistry()
	metrics, err := cache.NewMetrics(registry)
	if err != nil {
		t.Fatal(err)
	}
	f.cacher = newCacher(t, f.store, startFeed(t, cache.FeedConfig{Backend: f.backend, Prefix: "/registry", Metrics: metrics}))
	if got, err := registry.Gather(); err != nil || len(got) != 0 {
		t.Errorf("metrics of unread caches: %v, %v", got, err)
	}
	f.names(f.cacher)
	f.create("a")
	f.names(f.cacher)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, family := range families {
		var labels []string
		for _, label := range family.GetMetric()[0].GetLabel() {
			labels = append(labels, label.GetName())
		}
		got = append(got, family.GetName()+" "+strings.Join(labels, ","))
	}
	want := []string{
		"apiserver_cache_list_fetched_objects_total group,index,resource",
		"apiserver_cache_list_returned_objects_total group,resource",
		"apiserver_cache_list_total group,index,resource",
		"apiserver_storage_events_received_total group,resource",
		"apiserver_watch_cache_consistent_read_total fallback,group,resource,success",
		"apiserver_watch_cache_events_dispatched_total group,resource",
		"apiserver_watch_cache_events_received_total group,resource",
		"apiserver_watch_cache_initializations_total group,resource",
		"apiserver_watch_cache_read_wait_seconds group,resource",
		"apiserver_watch_cache_resource_version group,resource",
		"watch_cache_capacity group,resource",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
