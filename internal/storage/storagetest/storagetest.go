// Package storagetest contains a test suite for implementations of storage.Interface, which runs with every
// backend, with and without a cache. It also provides a store in memory for other tests (memory.go). It must
// be imported only by tests.
package storagetest

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/rest"
	"mainstay.dev/mainstay/internal/storage"
	"mainstay.dev/mainstay/internal/storage/kv"
)

// Setup describes the tested storage.
type Setup struct {
	// Backend opens the backend in a directory, which may contain the data of a closed backend. The
	// suite closes the backend.
	Backend func(t testing.TB, dir string) kv.Backend
	// Decorate wraps a store in the tested storage, which must be usable until the test ends. The
	// suite may open several storages over one backend.
	Decorate func(t testing.TB, store *storage.Store) storage.Interface
	// Remote is set if the backend is behind a network. Such a backend drops notes, so that watches decode
	// objects, and reports its progress with a delay.
	Remote bool
	// Transformer is the transformer of all storages for which a test does not set one; nil means
	// none.
	Transformer storage.Transformer
}

// Run runs the suite. The tests run in parallel.
func Run(t *testing.T, setup Setup) {
	for _, group := range []struct {
		name  string
		tests []test
	}{{"Write", writeTests()}, {"List", listTests()}, {"Watch", watchTests()}, {"Concurrent", concurrentTests()}, {"Transaction", transactionTests()}} {
		t.Run(group.name, func(t *testing.T) {
			t.Parallel()
			for _, test := range group.tests {
				t.Run(test.name, func(t *testing.T) {
					if setup.Remote && (test.name == "SharedRecord" || test.name == "LastBookmark") {
						t.Skip("requires a backend in the same process")
					}
					t.Parallel()
					test.run(newEnv(t, setup))
				})
			}
		})
	}
}

type test struct {
	name string
	run  func(*env)
}

// env is the storage of pods of one test.
type env struct {
	testing.TB
	storage.Interface
	ctx     context.Context
	setup   Setup
	dir     string
	backend kv.Backend
}

func newEnv(t testing.TB, setup Setup) *env {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	e := &env{TB: t, ctx: ctx, setup: setup, dir: t.TempDir()}
	e.backend = setup.Backend(t, e.dir)
	t.Cleanup(func() {
		if err := e.backend.Close(); err != nil && !errors.Is(err, kv.ErrClosed) {
			t.Errorf("close backend: %v", err)
		}
	})
	e.Interface = e.open(storage.Config{})
	return e
}

// open returns another storage with the same backend. Zero fields of cfg select a storage of pods.
func (e *env) open(cfg storage.Config) storage.Interface {
	e.Helper()
	cfg.Backend = e.backend
	if cfg.Kind == nil {
		cfg.Kind, cfg.Namespaced = PodKind(), true
	}
	if cfg.ResourcePrefix == "" {
		cfg.ResourcePrefix = "pods"
	}
	cfg.GroupResource = schema.GroupResource{Resource: cfg.ResourcePrefix}
	if cfg.Transformer == nil {
		cfg.Transformer = e.setup.Transformer
	}
	store, err := storage.New(cfg)
	if err != nil {
		e.Fatal(err)
	}
	return e.setup.Decorate(e.TB, store)
}

// PodKind returns a new Kind of pods, with the selectable field spec.nodeName.
func PodKind() *codec.Kind {
	return &codec.Kind{
		Hub: &codec.Version{
			GVK: corev1.SchemeGroupVersion.WithKind("Pod"),
			New: func() codec.Object { return &corev1.Pod{} },
		},
		Fields: func(obj codec.Object) fields.Set {
			return fields.Set{"spec.nodeName": obj.(*corev1.Pod).Spec.NodeName}
		},
	}
}

// Pod returns a pod with labels in the form "key=value".
func Pod(namespace, name string, labels ...string) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name,
			UID: types.UID("uid-of-" + name), Labels: map[string]string{},
		},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "image"}}},
	}
	for _, pair := range labels {
		k, v, _ := strings.Cut(pair, "=")
		pod.Labels[k] = v
	}
	return pod
}

func key(namespace, name string) types.NamespacedName {
	return types.NamespacedName{Namespace: namespace, Name: name}
}

func (e *env) create(pod *corev1.Pod) *codec.Record {
	e.Helper()
	record, err := e.Create(e.ctx, pod, storage.WriteOptions{})
	if err != nil {
		e.Fatalf("create %s: %v", pod.Name, err)
	}
	return record
}

// change updates an existing pod.
func (e *env) change(name types.NamespacedName, change func(*corev1.Pod)) *codec.Record {
	e.Helper()
	record, err := e.Update(e.ctx, name, updatePod(change), storage.UpdateOptions{})
	if err != nil {
		e.Fatalf("update %s: %v", name, err)
	}
	return record
}

// updatePod returns an UpdateFunc that applies change to the existing pod.
func updatePod(change func(*corev1.Pod)) storage.UpdateFunc {
	return func(current *codec.Record) (codec.Object, storage.WriteOptions, error) {
		if current == nil {
			return nil, storage.WriteOptions{}, storage.ErrNotFound
		}
		obj, err := current.Object()
		if err != nil {
			return nil, storage.WriteOptions{}, err
		}
		change(obj.(*corev1.Pod))
		return obj, storage.WriteOptions{}, nil
	}
}

func label(k, v string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		if pod.Labels == nil {
			pod.Labels = map[string]string{}
		}
		pod.Labels[k] = v
	}
}

func (e *env) remove(name types.NamespacedName) *codec.Record {
	e.Helper()
	record, err := e.Delete(e.ctx, name, nil, storage.UpdateOptions{})
	if err != nil {
		e.Fatalf("delete %s: %v", name, err)
	}
	return record
}

func (e *env) pod(record *codec.Record) *corev1.Pod {
	e.Helper()
	obj, err := record.Object()
	if err != nil {
		e.Fatal(err)
	}
	return obj.(*corev1.Pod)
}

// list returns a list and the names of its items, joined by spaces.
func (e *env) list(namespace string, options rest.ListOptions) (*rest.List, string) {
	e.Helper()
	list, err := e.List(e.ctx, namespace, options)
	if err != nil {
		e.Fatalf("list: %v", err)
	}
	return list, e.names(list)
}

func (e *env) names(list *rest.List) string {
	e.Helper()
	var names []string
	for record, err := range list.Items {
		if err != nil {
			e.Fatalf("list: %v", err)
		}
		names = append(names, record.Name().Name)
	}
	return strings.Join(names, " ")
}

func (e *env) watch(namespace string, options rest.ListOptions) rest.Watch {
	e.Helper()
	w, err := e.Watch(e.ctx, namespace, options)
	if err != nil {
		e.Fatalf("watch: %v", err)
	}
	e.Cleanup(func() { w.Close() })
	return w
}

// expect waits for the expected number of events and compares them, in the format "TYPE name
// resourceVersion value-of-label-x".
func (e *env) expect(w rest.Watch, want ...string) {
	e.Helper()
	var got []string
	for len(got) < len(want) {
		events, err := w.Next(e.ctx)
		if err != nil {
			e.Fatalf("watch ended with %v\n got: %q\nwant: %q", err, got, want)
		}
		for _, ev := range events {
			got = append(got, e.describe(ev))
		}
	}
	if a, b := strings.Join(got, "\n"), strings.Join(want, "\n"); a != b {
		e.Fatalf("events:\n%s\nwant:\n%s", a, b)
	}
}

func (e *env) describe(ev rest.Event) string {
	e.Helper()
	if ev.Record == nil {
		if ev.InitialEventsEnd {
			return fmt.Sprintf("%s end %d", ev.Type, ev.Revision)
		}
		return fmt.Sprintf("%s %d", ev.Type, ev.Revision)
	}
	pod := e.pod(ev.Record)
	if pod.ResourceVersion != strconv.FormatInt(ev.Record.Revision(), 10) {
		e.Errorf("object of the event has resourceVersion %s, its record has revision %d", pod.ResourceVersion, ev.Record.Revision())
	}
	return strings.TrimSpace(fmt.Sprintf("%s %s %s %s", ev.Type, pod.Name, pod.ResourceVersion, pod.Labels["x"]))
}

func event(kind, name string, revision int64, x string) string {
	return strings.TrimSpace(fmt.Sprintf("%s %s %d %s", kind, name, revision, x))
}

func selector(e *env, s string) labels.Selector {
	e.Helper()
	parsed, err := labels.Parse(s)
	if err != nil {
		e.Fatal(err)
	}
	return parsed
}

func rv(revision int64) string { return strconv.FormatInt(revision, 10) }
