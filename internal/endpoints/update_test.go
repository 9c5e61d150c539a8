package endpoints_test

import (
	"context"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/endpoints"
	"mainstay.dev/mainstay/internal/storage"
)

// twice is a storage that calls each update function twice, as after a conflict with another write.
type twice struct{ storage.Interface }

func (s twice) Update(ctx context.Context, name types.NamespacedName, update storage.UpdateFunc, options storage.UpdateOptions) (*codec.Record, error) {
	return s.Interface.Update(ctx, name, func(current *codec.Record) (codec.Object, storage.WriteOptions, error) {
		obj, _, err := update(current)
		if err != nil {
			return nil, storage.WriteOptions{}, err
		}
		obj.SetLabels(map[string]string{"spoilt": "yes"})
		return update(current)
	}, options)
}

// TestUpdateCalledTwice checks that the object in the request is stored, even if the object of a previous
// attempt was changed.
func TestUpdateCalledTwice(t *testing.T) {
	t.Parallel()
	a := newAPI(t, endpoints.Config{})
	store := a.stores["configmaps"]
	store.Storage = twice{store.Storage}
	a.must("POST "+inA+"configmaps", `{"metadata":{"name":"a"}}`)
	for _, body := range []string{
		`{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a","labels":{"n":"1"}},"data":{"x":"1"}}`,
		`{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a","labels":{"n":"2"}},"data":{"x":"1"}}`,
	} {
		now := a.must("PUT "+inA+"configmaps/a", body).configMap()
		if len(now.Labels) != 1 || now.Labels["n"] == "" || now.Data["x"] != "1" || now.Namespace != "a" {
			t.Errorf("stored %v", now)
		}
	}
}
