package custom

import (
	"context"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/codec"
	"mainstay.dev/mainstay/rest"
	"mainstay.dev/mainstay/storage"
)

// heldUpdates is a storage whose updates wait until they are let go.
type heldUpdates struct {
	storage.Interface
	begun, proceed chan struct{}
}

func (h *heldUpdates) Update(ctx context.Context, name types.NamespacedName, change storage.UpdateFunc, options storage.UpdateOptions) (*codec.Record, error) {
	h.begun <- struct{}{}
	<-h.proceed
	return h.Interface.Update(ctx, name, change, options)
}

// TestServedOnceEstablished: discovery and OpenAPI have a resource once its
// definition's condition is stored, and requests that come before wait for that.
func TestServedOnceEstablished(t *testing.T) {
	t.Parallel()
	for name, gone := range map[string]bool{"established": false, "deleted meanwhile": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			config := sourceOver(t, newBackend(t), time.Hour).config
			held := &heldUpdates{Interface: config.Definitions, begun: make(chan struct{}, 1), proceed: make(chan struct{})}
			config.Definitions = held
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
			if _, err := held.Create(t.Context(), crd, storage.WriteOptions{}); err != nil {
				t.Fatal(err)
			}
			<-held.begun
			gv := schema.GroupVersion{Group: "a.example.com", Version: "v1"}
			if _, found := s.Group(gv.Group); found || s.Serves(gv) || len(s.Groups()) > 0 {
				t.Error("in discovery before it is established")
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
				t.Error("a request was answered before the condition was stored")
			}
			if gone {
				if _, err := held.Delete(t.Context(), types.NamespacedName{Name: crd.Name}, nil, storage.UpdateOptions{}); err != nil {
					t.Fatal(err)
				}
			}
			close(held.proceed)
			if err := <-listed; gone != apierrors.IsNotFound(err) || !gone && err != nil {
				t.Errorf("the request that waited: %v", err)
			}
			if !gone {
				if got := <-changed; got != gv {
					t.Errorf("changed: %v", got)
				}
				if _, found := s.Group(gv.Group); !found || !s.Serves(gv) {
					t.Error("not in discovery although it is established")
				}
			}
		})
	}
}
