package custom

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/apis/custom/definition"
	"mainstay.dev/mainstay/codec"
	"mainstay.dev/mainstay/request"
	"mainstay.dev/mainstay/rest"
	"mainstay.dev/mainstay/storage"
)

func widget(name string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "a.example.com/v1", "kind": "Widget"}}
	u.SetName(name)
	return u
}

// TestCreatedAtTheEnd: an object that is being created while its definition ends
// is removed with it, and not there when the name is defined anew.
func TestCreatedAtTheEnd(t *testing.T) {
	t.Parallel()
	s := sourceOver(t, newBackend(t), 0)
	s.run(t)
	ctx := request.NewContext(t.Context(), &request.Info{}, time.Now())
	crd := widgetDefinition("a.example.com")
	crd.Finalizers = []string{definition.CleanupFinalizer}
	if _, err := s.config.Definitions.Create(ctx, crd.DeepCopy(), storage.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	widgets := s.awaitServed(t, "a.example.com").Storage.(rest.Creater)
	entered, release, created := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() { // ends with release
		_, err := widgets.Create(ctx, widget("late"), func(context.Context, codec.Object, codec.Object) error {
			close(entered)
			<-release
			return nil
		}, metav1.CreateOptions{})
		created <- err
	}()
	<-entered
	open := s.current.Load().find("a.example.com", "widgets").fence

	name := types.NamespacedName{Name: crd.Name}
	if _, err := s.config.Definitions.Update(ctx, name, func(current *codec.Record) (codec.Object, storage.WriteOptions, error) {
		obj, err := current.Object()
		if err != nil {
			return nil, storage.WriteOptions{}, err
		}
		now := metav1.Now()
		obj.SetDeletionTimestamp(&now)
		obj.SetGeneration(obj.GetGeneration() + 1)
		return obj, storage.WriteOptions{}, nil
	}, storage.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	gone := func() bool {
		_, err := s.config.Definitions.Get(ctx, name, storage.ReadOptions{})
		return errors.Is(err, storage.ErrNotFound)
	}
	for until := time.Now().Add(time.Minute); open.creating.TryRLock(); runtime.Gosched() { // until the cleaner waits
		open.creating.RUnlock()
		if gone() || time.Now().After(until) {
			t.Error("the end of the definition does not wait for the object")
			break
		}
	}
	if _, err := widgets.Create(ctx, widget("later"), nil, metav1.CreateOptions{}); !apierrors.IsMethodNotSupported(err) {
		t.Errorf("created at the end: %v", err)
	}
	close(release)
	if err := <-created; err != nil {
		t.Error(err)
	}
	for until := time.Now().Add(time.Minute); !gone(); runtime.Gosched() {
		if time.Now().After(until) {
			t.Fatal("the definition stays")
		}
	}

	crd.Finalizers, crd.UID = nil, "another"
	if _, err := s.config.Definitions.Create(ctx, crd, storage.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	for until := time.Now().Add(time.Minute); ; runtime.Gosched() {
		if e := s.current.Load().find("a.example.com", "widgets"); e != nil && e.uid == crd.UID && e.isServed() {
			break
		}
		if time.Now().After(until) {
			t.Fatal("not served anew")
		}
	}
	list, err := s.awaitServed(t, "a.example.com").Storage.(rest.Lister).List(ctx, "", rest.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for record, err := range list.Items {
		t.Errorf("%v is still there (%v)", record.Name(), err)
	}
}
