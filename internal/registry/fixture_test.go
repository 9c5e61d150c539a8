package registry_test

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/registry"
	"mainstay.dev/mainstay/internal/request"
	"mainstay.dev/mainstay/internal/rest"
	"mainstay.dev/mainstay/internal/storage"
	"mainstay.dev/mainstay/internal/storage/storagetest"
)

func podKind() *codec.Kind {
	return &codec.Kind{Hub: &codec.Version{
		GVK: corev1.SchemeGroupVersion.WithKind("Pod"),
		New: func() codec.Object { return new(corev1.Pod) },
	}}
}

// env is a registry of pods with its own store.
type env struct {
	testing.TB
	*registry.Store
	ctx context.Context
}

// newEnv returns a registry with the given strategy, or with a default strategy for nil. wrap decorates the
// storage if it is not nil.
func newEnv(t testing.TB, strategy *registry.Strategy, wrap func(storage.Interface) storage.Interface) *env {
	t.Helper()
	backend := storagetest.InMemory(t)
	if strategy == nil {
		strategy = &registry.Strategy{}
	}
	strategy.Namespaced = true
	resource := schema.GroupResource{Resource: "pods"}
	kind := podKind()
	kept, err := storage.New(storage.Config{
		Backend: backend, Kind: kind, Namespaced: true, ResourcePrefix: "pods", GroupResource: resource,
	})
	if err != nil {
		t.Fatal(err)
	}
	var store storage.Interface = kept
	if wrap != nil {
		store = wrap(store)
	}
	ctx, cancel := context.WithTimeout(request.NewContext(t.Context(), &request.Info{}, time.Now()), time.Minute)
	t.Cleanup(cancel)
	return &env{TB: t, Store: &registry.Store{Resource: resource, Kind: kind, Strategy: strategy, Storage: store}, ctx: ctx}
}

func pod(name string, change ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name}}
	for _, f := range change {
		f(p)
	}
	return p
}

func finalizers(names ...string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Finalizers = names }
}

func key(name string) types.NamespacedName { return types.NamespacedName{Namespace: "a", Name: name} }

func (e *env) create(p *corev1.Pod) *corev1.Pod {
	e.Helper()
	record, err := e.Create(e.ctx, p, nil, metav1.CreateOptions{})
	if err != nil {
		e.Fatal(err)
	}
	return e.read(record)
}

// read returns a copy of the object of a record.
func (e *env) read(record *codec.Record) *corev1.Pod {
	e.Helper()
	obj, err := record.Object()
	if err != nil {
		e.Fatal(err)
	}
	return obj.(*corev1.Pod)
}

// get returns the stored object, or nil.
func (e *env) get(name string) *corev1.Pod {
	e.Helper()
	record, err := e.Get(e.ctx, key(name), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		e.Fatal(err)
	}
	return e.read(record)
}

// change updates an object with the changes that f makes.
func (e *env) change(u rest.Updater, name string, f func(*corev1.Pod), options rest.UpdateOptions) (*corev1.Pod, error) {
	e.Helper()
	record, _, err := u.Update(e.ctx, key(name), func(_ context.Context, current codec.Object) (codec.Object, error) {
		p := current.DeepCopyObject().(*corev1.Pod)
		f(p)
		return p, nil
	}, options)
	if err != nil {
		return nil, err
	}
	return e.read(record), nil
}

// put replaces an object with p, regardless of its current state.
func (e *env) put(p *corev1.Pod, options rest.UpdateOptions) (*corev1.Pod, bool, error) {
	e.Helper()
	record, created, err := e.Update(e.ctx, types.NamespacedName{Namespace: p.Namespace, Name: p.Name}, func(context.Context, codec.Object) (codec.Object, error) {
		return p.DeepCopy(), nil
	}, options)
	if err != nil {
		return nil, false, err
	}
	return e.read(record), created, nil
}

func dryRun() []string { return []string{metav1.DryRunAll} }

// statusOf returns the Status of an API error, or the zero value.
func statusOf(err error) metav1.Status {
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		return status.Status()
	}
	return metav1.Status{}
}

func wantStatus(t testing.TB, err error, code int32, message string) {
	t.Helper()
	if err == nil {
		t.Errorf("no error; want %d %s", code, message)
		return
	}
	if got := statusOf(err); got.Code != code || got.Message != message {
		t.Errorf("error %d %s (%v)\nwant %d %s", got.Code, got.Message, err, code, message)
	}
}

func revision(t testing.TB, p *corev1.Pod) int64 {
	t.Helper()
	n, err := strconv.ParseInt(p.ResourceVersion, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
