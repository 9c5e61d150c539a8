package custom

import (
	"context"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/apis/custom/definition"
	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/rest"
	"mainstay.dev/mainstay/internal/storage"
	"mainstay.dev/mainstay/internal/storage/storagetest"
)

// blockedUpdates is a storage whose updates block until proceed is closed.
type blockedUpdates struct {
	storage.Interface
	begun, proceed chan struct{}
}

func (b *blockedUpdates) Update(ctx context.Context, name types.NamespacedName, change storage.UpdateFunc, options storage.UpdateOptions) (*codec.Record, error) {
	b.begun <- struct{}{}
	<-b.proceed
	return b.Interface.Update(ctx, name, change, options)
}

// TestServedOnceEstablished checks that discovery contains a resource only after its Established condition is
// stored, and that earlier requests wait until then.
func TestServedOnceEstablished(t *testing.T) {
	t.Parallel()
	for name, gone := range map[string]bool{"established": false, "deleted meanwhile": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			config := sourceOver(t, storagetest.InMemory(t), time.Hour).config
			definitions := &blockedUpdates{Interface: config.Definitions, begun: make(chan struct{}, 1), proceed: make(chan struct{})}
			config.Definitions = definitions
			changed := make(chan schema.GroupVersion, 10)
			config.Changed = func(gvs []schema.GroupVersion) {
				for _, gv := range gvs {
					changed <- gv
				}
			}
			s, err := New(config)
			if err != nil {
				t.Fatal(err)
			}
			s.run(t)
			crd := widgetDefinition("a.example.com")
			if _, err := definitions.Create(t.Context(), crd, storage.WriteOptions{}); err != nil {
				t.Fatal(err)
			}
			<-definitions.begun
			gv := schema.GroupVersion{Group: "a.example.com", Version: "v1"}
			if _, found := s.Group(gv.Group); found || s.Serves(gv) || len(s.Groups()) > 0 {
				t.Error("the group version is in discovery before the definition is established")
			}
			listed := make(chan error, 1)
			widgets := s.awaitServed(t, "a.example.com").Storage.(rest.Lister)
			go func() {
				_, err := widgets.List(t.Context(), "", rest.ListOptions{})
				listed <- err
			}()
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			if _, err := widgets.List(ctx, "", rest.ListOptions{}); err == nil {
				t.Error("a request returned before the condition was stored")
			}
			if gone {
				if _, err := definitions.Delete(t.Context(), types.NamespacedName{Name: crd.Name}, nil, storage.UpdateOptions{}); err != nil {
					t.Fatal(err)
				}
			}
			close(definitions.proceed)
			if err := <-listed; gone != apierrors.IsNotFound(err) || !gone && err != nil {
				t.Errorf("waiting request: %v", err)
			}
			if !gone {
				if got := <-changed; got != gv {
					t.Errorf("changed: %v", got)
				}
				if _, found := s.Group(gv.Group); !found || !s.Serves(gv) {
					t.Error("the group version is not in discovery although the definition is established")
				}
			}
		})
	}
}

// TestReserved checks that a resource is found after its definition was written and before the controller processes it,
// unless one of its names belongs to another definition.
func TestReserved(t *testing.T) {
	t.Parallel()
	s := sourceOver(t, storagetest.InMemory(t), 0) // the controller does not run yet
	define := func(name, plural string) {
		t.Helper()
		crd := widgetDefinition("a.example.com")
		crd.Name, crd.UID, crd.Spec.Names.Plural, crd.Spec.Names.Singular = name, types.UID(name), plural, ""
		record, err := s.config.Definitions.Create(t.Context(), crd, storage.WriteOptions{})
		if err == nil {
			err = s.Observe(record)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	v1 := schema.GroupVersion{Group: "a.example.com", Version: "v1"}
	define("widgets.a.example.com", "widgets")
	define("gadgets.a.example.com", "gadgets") // of the same kind
	widgets := s.Find(v1, "widgets", "")
	if widgets == nil {
		t.Fatal("the resource of a new definition is not found")
	}
	if s.Find(v1, "gadgets", "") != nil {
		t.Error("a definition with a conflicting kind is served")
	}
	if s.Serves(v1) {
		t.Error("the group version is in discovery before the definition is established")
	}
	s.run(t)
	if _, err := widgets.Storage.(rest.Lister).List(t.Context(), "", rest.ListOptions{}); err != nil {
		t.Errorf("list: %v", err)
	}
	if !s.Serves(v1) {
		t.Error("a request returned before the condition was stored")
	}
}

// TestReservationLost checks that a waiting request is rejected if another server has accepted the name for another
// definition.
func TestReservationLost(t *testing.T) {
	t.Parallel()
	s := sourceOver(t, storagetest.InMemory(t), 0)
	crd := widgetDefinition("a.example.com")
	record, err := s.config.Definitions.Create(t.Context(), crd, storage.WriteOptions{})
	if err == nil {
		err = s.Observe(record)
	}
	if err != nil {
		t.Fatal(err)
	}
	widgets := s.Find(schema.GroupVersion{Group: "a.example.com", Version: "v1"}, "widgets", "")
	listed := make(chan error, 1)
	go func() {
		_, err := widgets.Storage.(rest.Lister).List(t.Context(), "", rest.ListOptions{})
		listed <- err
	}()
	conflicting := *crd
	definition.SetCondition(&conflicting, apiextensionsv1.CustomResourceDefinitionCondition{Type: apiextensionsv1.NamesAccepted, Status: apiextensionsv1.ConditionFalse}, time.Now())
	s.controller.decide(&conflicting)
	if err := <-listed; !apierrors.IsNotFound(err) {
		t.Errorf("waiting request: %v", err)
	}
}
