package builtin

import (
	"context"
	"fmt"
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/registry"
	"mainstay.dev/mainstay/internal/rest"
)

// Scale specifies which fields of a kind an autoscaling/v1 Scale contains. The desired number of replicas must
// be at spec.replicas. O is a pointer to the type of the kind.
type Scale[O codec.Object] struct {
	// Replicas returns the address of the field spec.replicas. The field may be nil.
	Replicas func(obj O) **int32
	// Observed returns the number of existing replicas.
	Observed func(obj O) int32
	// Selector returns the selector of the scaled pods, in the string form of label selectors.
	Selector func(obj O) (string, error)
}

// ScaleSubresource returns the /scale subresource of a row. It reads and writes the object of the row in the
// form of a Scale.
func ScaleSubresource[O codec.Object](scale Scale[O]) Subresource {
	kind := &codec.Kind{Hub: hubVersion[autoscalingv1.Scale](autoscalingv1.SchemeGroupVersion.WithKind("Scale"), nil)}
	return Subresource{
		Name: "scale", Version: kind.Hub, Kind: kind, Table: Table(scaleColumns()),
		Storage: func(_ *Env, store *registry.Store) rest.Storage {
			version := store.Kind.Hub.GVK.GroupVersion()
			scalable := &registry.Scalable{
				Objects: &registry.SubresourceStore{Store: store, Subresource: "scale", Strategy: store.Strategy},
				Version: version, ReplicasPaths: managedfields.ResourcePathMappings{version.String(): fieldpath.MakePathOrDie("spec", "replicas")},
				Read: func(obj codec.Object) (registry.ScaleValues, error) {
					values, err := scale.values(typed[O](obj))
					if err != nil {
						err = fmt.Errorf("selector of %s %q: %w", store.Resource, obj.GetName(), err)
					}
					return values, err
				},
				Write: func(obj codec.Object, replicas int32) error {
					*scale.Replicas(typed[O](obj)) = &replicas
					return nil
				},
			}
			return &registry.Scale{Kind: kind, Open: func(context.Context) (*registry.Scalable, error) { return scalable, nil }}
		},
	}
}

func (s Scale[O]) values(obj O) (registry.ScaleValues, error) {
	selector, err := s.Selector(obj)
	values := registry.ScaleValues{StatusReplicas: s.Observed(obj), Selector: selector}
	if replicas := *s.Replicas(obj); replicas != nil {
		values.SpecReplicas = *replicas
	}
	return values, err
}

func scaleColumns() *Columns[*autoscalingv1.Scale] {
	name := NameColumn()
	name.Format = ""
	return &Columns[*autoscalingv1.Scale]{
		Definitions: []metav1.TableColumnDefinition{
			name,
			Column("Desired", "integer", autoscalingv1.ScaleSpec{}.SwaggerDoc()["replicas"]),
			Column("Available", "integer", autoscalingv1.ScaleStatus{}.SwaggerDoc()["replicas"]),
			AgeColumn(),
		},
		Cells: func(scale *autoscalingv1.Scale, now time.Time) []any {
			return []any{scale.Name, int64(scale.Spec.Replicas), int64(scale.Status.Replicas), Age(scale.CreationTimestamp, now)}
		},
	}
}
