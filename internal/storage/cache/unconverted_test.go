package cache

import (
	"context"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/storage"
)

// TestUnconverted checks that the index of a field does not call a conversion webhook, because the feed has
// no deadline for such a call. All watches of the field are notified, and convert the object themselves.
func TestUnconverted(t *testing.T) {
	t.Parallel()
	version := func(name string) *codec.Version {
		return &codec.Version{
			GVK: schema.GroupVersionKind{Group: "example.com", Version: name, Kind: "Widget"}, Untyped: true,
			New: func() codec.Object { return &unstructured.Unstructured{Object: map[string]any{}} },
		}
	}
	hub, older := version("v2"), version("v1")
	kind := &codec.Kind{
		Hub: hub, Versions: []*codec.Version{hub, older},
		Fields: func(codec.Object) fields.Set { return fields.Set{"spec.size": "1"} },
		Convert: func(context.Context, []codec.Object, *codec.Version) ([]codec.Object, error) {
			t.Error("the index converts an object")
			return nil, context.Canceled
		},
	}
	value := []byte(`{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"a"},"spec":{"size":"1"}}`)
	log := newLog(0, LogLimits{Changes: 10, Bytes: 1 << 20, Age: time.Hour})
	topics := []*topic{log.subscribe(topicKey{field: "spec.size", value: "1"}), log.subscribe(topicKey{field: "spec.size", value: "2"})}
	log.append(&storage.Change{Key: "/registry/widgets/a", Revision: 1, Record: codec.NewRecord(kind, types.NamespacedName{Name: "a"}, value, 1)}, nil, time.Now())
	for _, topic := range topics {
		if len(topic.positions) != 1 {
			t.Errorf("the topic of size %s has %d changes, want 1", topic.key.value, len(topic.positions))
		}
	}
}
