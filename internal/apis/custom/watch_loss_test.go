package custom

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/apis/custom/definition"
	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/rest"
	"mainstay.dev/mainstay/internal/storage"
	"mainstay.dev/mainstay/internal/storage/storagetest"
	"mainstay.dev/mainstay/test/testserver"
)

// interrupted is a storage that ends one of its watches for each value sent to end.
type interrupted struct {
	storage.Interface
	end     chan struct{}
	watches atomic.Int64
}

func (i *interrupted) Watch(ctx context.Context, namespace string, options rest.ListOptions) (rest.Watch, error) {
	w, err := i.Interface.Watch(ctx, namespace, options)
	i.watches.Add(1)
	return &interruptedWatch{w, i}, err
}

type interruptedWatch struct {
	rest.Watch
	of *interrupted
}

func (w *interruptedWatch) Next(ctx context.Context) ([]rest.Event, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() { // ends with ctx
		select {
		case <-w.of.end:
			cancel()
		case <-ctx.Done():
		}
	}()
	return w.Watch.Next(ctx)
}

// TestDeletionOutlivesWatch checks that a definition whose deletion waits for its objects is deleted even if
// the watch of definitions is interrupted in the meantime.
func TestDeletionOutlivesWatch(t *testing.T) {
	t.Parallel()
	s := sourceOver(t, storagetest.InMemory(t), 0)
	definitions := &interrupted{Interface: s.config.Definitions, end: make(chan struct{})}
	config := s.config
	config.Definitions = definitions
	s, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	s.run(t)
	crd := widgetDefinition("a.example.com")
	crd.Finalizers = []string{definition.CleanupFinalizer}
	name := types.NamespacedName{Name: crd.Name}
	if _, err := definitions.Create(t.Context(), crd, storage.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	resource := s.awaitServed(t, "a.example.com")
	widget := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "a.example.com/v1", "kind": "Widget", "metadata": map[string]any{"name": "one", "finalizers": []any{"example.com/wait"}},
	}}
	if _, err := resource.Storage.(rest.Creater).Create(t.Context(), widget, nil, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	mark := func(current *codec.Record) (codec.Object, storage.WriteOptions, error) {
		obj, err := current.Object()
		if err == nil {
			now := metav1.Now()
			obj.SetDeletionTimestamp(&now)
		}
		return obj, storage.WriteOptions{}, err
	}
	if _, err := definitions.Update(t.Context(), name, mark, storage.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	testserver.Eventually(t, time.Minute, func() error { // the finalization waits for the objects
		crd, err := s.read(t.Context(), crd.Name, "schema")
		if err == nil && !definition.IsTrue(crd, apiextensionsv1.Terminating) {
			err = errNotYet
		}
		return err
	})
	before := definitions.watches.Load()
	testserver.Eventually(t, time.Minute, func() error {
		if definitions.watches.Load() > before {
			return nil
		}
		select {
		case definitions.end <- struct{}{}: // a call of Next that has already ended may receive it
		default:
		}
		return errNotYet
	})
	free := func(_ context.Context, current codec.Object) (codec.Object, error) {
		freed := current.DeepCopyObject().(codec.Object)
		freed.SetFinalizers(nil)
		return freed, nil
	}
	if _, _, err := resource.Storage.(rest.Updater).Update(t.Context(), types.NamespacedName{Name: "one"}, free, rest.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	testserver.Eventually(t, time.Minute, func() error {
		if _, err := definitions.Get(t.Context(), name, storage.ReadOptions{}); !errors.Is(err, storage.ErrNotFound) {
			return errNotYet
		}
		return nil
	})
}

var errNotYet = errors.New("not yet")
