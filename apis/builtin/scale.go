package builtin

import (
	"context"
	"fmt"
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"mainstay.dev/mainstay/codec"
	"mainstay.dev/mainstay/registry"
	"mainstay.dev/mainstay/rest"
)

// Scale says where a kind keeps what an autoscaling/v1 Scale shows of it. The
// wanted number must stand at spec.replicas.
type Scale[T any] struct {
	// Replicas returns the field of the wanted number, which may hold nil.
	Replicas func(obj *T) **int32
	// Observed returns how many there are.
	Observed func(obj *T) int32
	// Selector returns the selector of what is counted, as text.
	Selector func(obj *T) (string, error)
}

// ScaleSubresource is the subresource /scale of a row: the same object, shown
// and written as a Scale.
func ScaleSubresource[T any, P object[T]](scale Scale[T]) Subresource {
	kind := scaleKind()
	return Subresource{
		Name: "scale", Version: kind.Hub, Kind: kind, Table: table[autoscalingv1.Scale, *autoscalingv1.Scale]{scaleColumns()},
		Storage: func(_ *Env, store *registry.Store) rest.Storage {
			return &scaleStorage[T, P]{
				scale: scale, kind: kind, parent: &registry.Part{Store: store, Strategy: store.Strategy},
			}
		},
	}
}

func scaleKind() *codec.Kind {
	return &codec.Kind{Hub: hubVersion[autoscalingv1.Scale](autoscalingv1.SchemeGroupVersion.WithKind("Scale"), nil)}
}

func scaleColumns() *Columns[autoscalingv1.Scale] {
	name := NameColumn()
	name.Format = ""
	return &Columns[autoscalingv1.Scale]{
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

// scaleStorage reads and updates the parent object by its own rules.
type scaleStorage[T any, P object[T]] struct {
	scale  Scale[T]
	kind   *codec.Kind
	parent *registry.Part
}

var (
	_ rest.Getter  = (*scaleStorage[metav1.PartialObjectMetadata, *metav1.PartialObjectMetadata])(nil)
	_ rest.Updater = (*scaleStorage[metav1.PartialObjectMetadata, *metav1.PartialObjectMetadata])(nil)
)

// Get implements rest.Getter.
func (s *scaleStorage[T, P]) Get(ctx context.Context, name types.NamespacedName, options metav1.GetOptions) (*codec.Record, error) {
	record, err := s.parent.Get(ctx, name, options)
	if err != nil {
		return nil, err
	}
	return s.record(record)
}

// Update implements rest.Updater. The resourceVersion and uid of a Scale are
// those of its parent, so that the parent's preconditions serve.
func (s *scaleStorage[T, P]) Update(ctx context.Context, name types.NamespacedName, update rest.UpdateFunc, options rest.UpdateOptions) (*codec.Record, bool, error) {
	if validate := options.Validate; validate != nil {
		options.Validate = func(ctx context.Context, obj, old codec.Object) error {
			scale, err := s.show(obj)
			if err != nil {
				return err
			}
			oldScale, err := s.show(old)
			if err != nil {
				return err
			}
			return validate(ctx, scale, oldScale)
		}
	}
	record, _, err := s.parent.Update(ctx, name, func(ctx context.Context, current codec.Object) (codec.Object, error) {
		return s.rescale(ctx, current, update)
	}, options)
	if err != nil {
		return nil, false, err
	}
	shown, err := s.record(record)
	return shown, false, err
}

// rescale takes over the number of replicas, and who manages it, from what
// update makes of the Scale.
func (s *scaleStorage[T, P]) rescale(ctx context.Context, current codec.Object, update rest.UpdateFunc) (codec.Object, error) {
	before, err := s.show(current)
	if err != nil {
		return nil, err
	}
	managers := s.managers(current)
	if before.ManagedFields, err = managers.ToSubresource(); err != nil {
		return nil, fmt.Errorf("read managed fields: %w", err)
	}
	updated, err := update(ctx, before)
	if err != nil {
		return nil, err
	}
	scale := updated.(*autoscalingv1.Scale)
	if scale.Spec.Replicas < 0 {
		return nil, apierrors.NewInvalid(s.kind.Hub.GVK.GroupKind(), scale.Name, field.ErrorList{
			field.Invalid(field.NewPath("spec", "replicas"), scale.Spec.Replicas, "must be greater than or equal to 0"),
		})
	}
	entries, err := managers.ToParent(scale.ManagedFields)
	if err != nil {
		return nil, fmt.Errorf("write managed fields: %w", err)
	}
	parent := current.DeepCopyObject().(P)
	*s.scale.Replicas((*T)(parent)) = &scale.Spec.Replicas
	parent.SetManagedFields(entries)
	parent.SetResourceVersion(scale.ResourceVersion)
	if scale.UID != "" {
		parent.SetUID(scale.UID)
	}
	return parent, nil
}

func (s *scaleStorage[T, P]) managers(parent codec.Object) *managedfields.ScaleHandler {
	gv := s.parent.Store.Kind.Hub.GVK.GroupVersion()
	paths := managedfields.ResourcePathMappings{gv.String(): fieldpath.MakePathOrDie("spec", "replicas")}
	return managedfields.NewScaleHandler(parent.GetManagedFields(), gv, paths)
}

// show makes the Scale of an object, without its managed fields.
func (s *scaleStorage[T, P]) show(parent codec.Object) (*autoscalingv1.Scale, error) {
	obj := (*T)(parent.(P))
	selector, err := s.scale.Selector(obj)
	if err != nil {
		return nil, fmt.Errorf("selector of %s %q: %w", s.parent.Store.Resource, parent.GetName(), err)
	}
	scale := &autoscalingv1.Scale{
		TypeMeta: metav1.TypeMeta{Kind: s.kind.Hub.GVK.Kind, APIVersion: s.kind.Hub.GVK.GroupVersion().String()},
		ObjectMeta: metav1.ObjectMeta{
			Name: parent.GetName(), Namespace: parent.GetNamespace(), UID: parent.GetUID(),
			ResourceVersion: parent.GetResourceVersion(), CreationTimestamp: parent.GetCreationTimestamp(),
		},
		Status: autoscalingv1.ScaleStatus{Replicas: s.scale.Observed(obj), Selector: selector},
	}
	if replicas := *s.scale.Replicas(obj); replicas != nil {
		scale.Spec.Replicas = *replicas
	}
	return scale, nil
}

func (s *scaleStorage[T, P]) record(parent *codec.Record) (*codec.Record, error) {
	obj, err := parent.Shared()
	if err != nil {
		return nil, err
	}
	scale, err := s.show(obj)
	if err != nil {
		return nil, err
	}
	return codec.RecordOf(s.kind, scale, nil, parent.Revision()), nil
}
