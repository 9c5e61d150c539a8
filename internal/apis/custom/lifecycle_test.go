package custom

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/apis/custom/definition"
	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/request"
	"mainstay.dev/mainstay/internal/rest"
	"mainstay.dev/mainstay/internal/storage"
	"mainstay.dev/mainstay/internal/storage/storagetest"
	"mainstay.dev/mainstay/test/testserver"
)

// isAwaited reports whether a finalizer waits for creations in progress.
func (g *createGate) isAwaited() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.mu.drained != nil
}

func widget(name string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "a.example.com/v1", "kind": "Widget"}}
	u.SetName(name)
	return u
}

// TestCreateDuringDeletion checks that an object created during the deletion of its definition is deleted with
// it, and does not reappear when the definition is created again.
func TestCreateDuringDeletion(t *testing.T) {
	t.Parallel()
	s := sourceOver(t, storagetest.InMemory(t), 0)
	s.run(t)
	ctx := request.NewContext(t.Context(), &request.Info{}, time.Now())
	crd := widgetDefinition("a.example.com")
	crd.Finalizers = []string{definition.CleanupFinalizer}
	if _, err := s.config.Definitions.Create(ctx, crd.DeepCopy(), storage.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	widgets := s.awaitServed(t, "a.example.com").Storage.(rest.Creater)
	entered, release, created := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() { // ends after release is closed
		_, err := widgets.Create(ctx, widget("late"), func(context.Context, codec.Object, codec.Object) error {
			close(entered)
			<-release
			return nil
		}, metav1.CreateOptions{})
		created <- err
	}()
	<-entered
	gate := s.current.Load().find("a.example.com", "widgets").creates

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
	for until := time.Now().Add(time.Minute); !gate.isAwaited(); runtime.Gosched() {
		if gone() || time.Now().After(until) {
			t.Error("the deletion of the definition does not wait for the creation")
			break
		}
	}
	if _, err := widgets.Create(ctx, widget("later"), nil, metav1.CreateOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("create in a terminating definition: %v", err)
	}
	close(release)
	if err := <-created; err != nil {
		t.Error(err)
	}
	testserver.Eventually(t, time.Minute, func() error {
		if !gone() {
			return errors.New("the definition still exists")
		}
		return nil
	})

	crd.Finalizers, crd.UID = nil, "another"
	if _, err := s.config.Definitions.Create(ctx, crd, storage.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	testserver.Eventually(t, time.Minute, func() error {
		if e := s.current.Load().find("a.example.com", "widgets"); e == nil || e.uid != crd.UID || !e.isServed() {
			return errors.New("the new definition is not served")
		}
		return nil
	})
	list, err := s.awaitServed(t, "a.example.com").Storage.(rest.Lister).List(ctx, "", rest.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for record, err := range list.Items {
		t.Errorf("%v still exists (%v)", record.Name(), err)
	}
}

// TestRemoving checks that a definition in phase removing is not served, regardless of later events, until the phase is
// reset or the definition is replaced.
func TestRemoving(t *testing.T) {
	t.Parallel()
	s := sourceOver(t, storagetest.InMemory(t), 0)
	var changed []schema.GroupVersion
	s.config.Changed = func(gvs []schema.GroupVersion) { changed = append(changed, gvs...) }
	crd := widgetDefinition("a.example.com")
	crd.Status.Conditions = []apiextensionsv1.CustomResourceDefinitionCondition{{Type: apiextensionsv1.Established, Status: apiextensionsv1.ConditionTrue}}
	s.observe(newEntry(crd, 1), true)
	gv := schema.GroupVersion{Group: "a.example.com", Version: "v1"}
	check := func(when string, served bool, changes int) {
		t.Helper()
		if found := s.Find(gv, "widgets", "") != nil; found != served || s.Serves(gv) != served {
			t.Errorf("%s: served %v", when, found)
		}
		if len(changed) != changes {
			t.Errorf("%s: %d changes were reported", when, len(changed))
		}
		changed = nil
	}
	check("initially", true, 1)
	s.setRemoving(crd.Name, "another", true)
	check("another definition is removing", true, 0)
	generation := s.Generation()
	s.setRemoving(crd.Name, crd.UID, true)
	check("removing", false, 1)
	if s.Generation() == generation {
		t.Error("the generation has not increased")
	}
	s.observe(newEntry(crd, 2), true)
	check("removing, after an event", false, 0)
	s.setRemoving(crd.Name, crd.UID, false)
	check("not removing", true, 1)
	s.setRemoving(crd.Name, crd.UID, true)
	crd.UID = "new"
	s.observe(newEntry(crd, 3), true)
	check("new definition", true, 1+1)
}

// TestListKind checks that the lists of an established definition have the accepted list kind, even while the
// requested list kind belongs to another definition.
func TestListKind(t *testing.T) {
	t.Parallel()
	s := sourceOver(t, storagetest.InMemory(t), 0)
	crd := widgetDefinition("a.example.com")
	crd.Status.Conditions = []apiextensionsv1.CustomResourceDefinitionCondition{{Type: apiextensionsv1.Established, Status: apiextensionsv1.ConditionTrue}}
	crd.Status.AcceptedNames = crd.Spec.Names
	check := func(revision int64, want string) {
		t.Helper()
		s.observe(newEntry(crd, revision), true)
		resource := s.Find(schema.GroupVersion{Group: "a.example.com", Version: "v1"}, "widgets", "")
		group, _ := s.Group("a.example.com")
		if got, discovered := resource.Version.List, group.Versions[0].Resources[0].Version.List; got != want || discovered != want {
			t.Errorf("revision %d: list kind %s, in discovery %s, want %s", revision, got, discovered, want)
		}
	}
	check(1, "WidgetList")
	crd.Spec.Names.ListKind = "Widgets"
	crd.Generation++
	check(2, "WidgetList")
	crd.Status.AcceptedNames.ListKind = "Widgets"
	check(3, "Widgets")
}

// TestTerminatingKeepsState checks that the derived state, and with it open watches, stays in use while a definition is
// terminating, and that a change of the spec replaces it.
func TestTerminatingKeepsState(t *testing.T) {
	t.Parallel()
	s := sourceOver(t, storagetest.InMemory(t), 0)
	crd := widgetDefinition("a.example.com")
	stateOf := func(revision int64) *generationState {
		s.observe(newEntry(crd, revision), true)
		return s.current.Load().named(crd.Name).derived
	}
	first := stateOf(1)
	now := metav1.Now()
	crd.DeletionTimestamp = &now
	crd.Generation++
	if stateOf(2) != first || first.lifetime.Err() != nil {
		t.Error("the deletion timestamp ended the derived state")
	}
	if stateOf(3) != first {
		t.Error("a status write ended the derived state")
	}
	crd.Generation++
	if stateOf(4) == first || first.lifetime.Err() == nil {
		t.Error("the derived state is in use after a change of the spec")
	}
}
