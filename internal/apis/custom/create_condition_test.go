package custom

import (
	"context"
	"fmt"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/apis/custom/definition"
	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/request"
	"mainstay.dev/mainstay/internal/rest"
	"mainstay.dev/mainstay/internal/storage"
	"mainstay.dev/mainstay/internal/storage/kv"
	"mainstay.dev/mainstay/internal/storage/storagetest"
	"mainstay.dev/mainstay/test/testserver"
)

// sharedSource returns the source of one of several servers. The source has loaded the stored definitions and
// receives no later changes, like a server whose events are delayed.
func sharedSource(t *testing.T, backend kv.Backend) *Source {
	t.Helper()
	s := sourceOver(t, backend, 0)
	s.config.Shared = true
	if err := s.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}

// TestDeletedByAnotherServer checks that a server that has not observed the deletion of a
// definition does not create its objects.
func TestDeletedByAnotherServer(t *testing.T) {
	t.Parallel()
	backend := storagetest.InMemory(t)
	here := sourceOver(t, backend, 0)
	here.run(t)
	ctx := request.NewContext(t.Context(), &request.Info{}, time.Now())
	crd := widgetDefinition("a.example.com")
	crd.Finalizers = []string{definition.CleanupFinalizer, "example.com/stay"}
	if _, err := here.config.Definitions.Create(ctx, crd.DeepCopy(), storage.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	awaitDefinition(t, here, func(crd *apiextensionsv1.CustomResourceDefinition) bool {
		return definition.IsTrue(crd, apiextensionsv1.Established)
	})
	there, later := sharedSource(t, backend), sharedSource(t, backend)
	widgets := there.awaitServed(t, "a.example.com").Storage
	create := func(name string) error {
		_, err := widgets.(rest.Creater).Create(ctx, widget(name), nil, metav1.CreateOptions{})
		return err
	}
	apply := func(context.Context, codec.Object) (codec.Object, error) { return widget("applied"), nil }
	if err := create("before"); err != nil {
		t.Fatal(err)
	}
	changeDefinition(t, here, func(crd *apiextensionsv1.CustomResourceDefinition) { crd.Labels = map[string]string{"changed": "yes"} })
	if err := create("changed"); err != nil {
		t.Fatalf("create after a change of the definition: %v", err)
	}
	changeDefinition(t, here, func(crd *apiextensionsv1.CustomResourceDefinition) {
		now := metav1.Now()
		crd.DeletionTimestamp, crd.Generation = &now, crd.Generation+1
	})
	_, _, err := later.awaitServed(t, "a.example.com").Storage.(rest.Updater).Update(ctx, types.NamespacedName{Name: "applied"}, apply, rest.UpdateOptions{AllowCreate: true})
	if !apierrors.IsForbidden(err) {
		t.Errorf("apply after the deletion: got error %v, want Forbidden", err)
	}
	if err := create("after"); !apierrors.IsForbidden(err) {
		t.Errorf("create after the deletion: got error %v, want Forbidden", err)
	}
	awaitDefinition(t, here, func(crd *apiextensionsv1.CustomResourceDefinition) bool { return len(crd.Finalizers) == 1 })
	list, err := widgets.(rest.Lister).List(ctx, "", rest.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for record := range list.Items {
		t.Errorf("%s still exists", record.Name())
	}
}

// TestRemovedByAnotherServer checks that no object is created after another server has deleted or replaced the
// definition.
func TestRemovedByAnotherServer(t *testing.T) {
	t.Parallel()
	for name, successor := range map[string]bool{"deleted": false, "replaced": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			backend := storagetest.InMemory(t)
			here := sourceOver(t, backend, 0)
			crd := widgetDefinition("a.example.com")
			crd.Status.AcceptedNames = crd.Spec.Names
			for _, condition := range []apiextensionsv1.CustomResourceDefinitionConditionType{apiextensionsv1.NamesAccepted, apiextensionsv1.Established} {
				definition.SetCondition(crd, apiextensionsv1.CustomResourceDefinitionCondition{Type: condition, Status: apiextensionsv1.ConditionTrue}, time.Now())
			}
			definitions := here.config.Definitions
			if _, err := definitions.Create(t.Context(), crd.DeepCopy(), storage.WriteOptions{}); err != nil {
				t.Fatal(err)
			}
			there := sharedSource(t, backend)
			widgets := there.awaitServed(t, "a.example.com").Storage.(rest.Creater)
			ctx := request.NewContext(t.Context(), &request.Info{}, time.Now())
			if _, err := widgets.Create(ctx, widget("before"), nil, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			if _, err := definitions.Delete(ctx, types.NamespacedName{Name: crd.Name}, nil, storage.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
			if successor {
				crd.UID = "another"
				if _, err := definitions.Create(ctx, crd, storage.WriteOptions{}); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := widgets.Create(ctx, widget("after"), nil, metav1.CreateOptions{}); !apierrors.IsNotFound(err) {
				t.Errorf("create after the deletion: got error %v, want NotFound", err)
			}
		})
	}
}

func changeDefinition(t *testing.T, s *Source, change func(*apiextensionsv1.CustomResourceDefinition)) {
	t.Helper()
	_, err := s.config.Definitions.Update(t.Context(), types.NamespacedName{Name: "widgets.a.example.com"}, func(current *codec.Record) (codec.Object, storage.WriteOptions, error) {
		obj, err := current.Object()
		if err != nil {
			return nil, storage.WriteOptions{}, err
		}
		change(obj.(*apiextensionsv1.CustomResourceDefinition))
		return obj, storage.WriteOptions{}, nil
	}, storage.UpdateOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

// awaitDefinition waits until the stored definition satisfies a condition.
func awaitDefinition(t *testing.T, s *Source, is func(*apiextensionsv1.CustomResourceDefinition) bool) {
	t.Helper()
	testserver.Eventually(t, time.Minute, func() error {
		record, err := s.readRecord(t.Context(), "widgets.a.example.com")
		if err != nil {
			return err
		}
		crd, err := codec.SharedAs[*apiextensionsv1.CustomResourceDefinition](record)
		if err == nil && !is(crd) {
			err = fmt.Errorf("the definition is %+v, %+v", crd.ObjectMeta, crd.Status)
		}
		return err
	})
}
