package custom

import (
	"context"
	"fmt"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"mainstay.dev/mainstay/codec"
	"mainstay.dev/mainstay/rest"
)

func scaleKind() *codec.Kind {
	return &codec.Kind{Hub: &codec.Version{
		GVK: autoscalingv1.SchemeGroupVersion.WithKind("Scale"), New: func() codec.Object { return new(autoscalingv1.Scale) },
	}}
}

// scales is the REST storage of /scale: the same object, shown and written as a
// Scale.
type scales struct {
	served *served
	kind   *codec.Kind
}

var (
	_ rest.Getter  = scales{}
	_ rest.Updater = scales{}
)

// Get implements rest.Getter.
func (s scales) Get(ctx context.Context, name types.NamespacedName, options metav1.GetOptions) (*codec.Record, error) {
	o, err := s.served.open(ctx)
	if err != nil {
		return nil, err
	}
	record, err := o.store.Get(ctx, name, options)
	if err != nil {
		return nil, err
	}
	return s.record(o, record)
}

// Update implements rest.Updater. The resourceVersion and uid of a Scale are
// those of its object, so that the object's preconditions serve.
func (s scales) Update(ctx context.Context, name types.NamespacedName, update rest.UpdateFunc, options rest.UpdateOptions) (*codec.Record, bool, error) {
	o, err := s.served.open(ctx)
	if err != nil {
		return nil, false, err
	}
	if validate := options.Validate; validate != nil {
		options.Validate = func(ctx context.Context, obj, old codec.Object) error {
			scale, err := o.show(obj)
			if err != nil {
				return err
			}
			before, err := o.show(old)
			if err != nil {
				return err
			}
			return validate(ctx, scale, before)
		}
	}
	options.AllowCreate = false
	record, _, err := o.store.Update(ctx, name, func(ctx context.Context, current codec.Object) (codec.Object, error) {
		return s.rescale(ctx, o, current, update)
	}, options)
	if err != nil {
		return nil, false, err
	}
	shown, err := s.record(o, record)
	return shown, false, err
}

// rescale takes over the number of replicas, and who manages it, from what
// update makes of the Scale.
func (s scales) rescale(ctx context.Context, o *opened, current codec.Object, update rest.UpdateFunc) (codec.Object, error) {
	before, err := o.show(current)
	if err != nil {
		return nil, err
	}
	managers := managedfields.NewScaleHandler(current.GetManagedFields(), s.served.gvk.GroupVersion(), o.replicasPaths)
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
	current = current.DeepCopyObject().(codec.Object)
	if err := unstructured.SetNestedField(content(current), int64(scale.Spec.Replicas), steps(o.scale.SpecReplicasPath)...); err != nil {
		return nil, fmt.Errorf("set replicas: %w", err)
	}
	current.SetManagedFields(entries)
	// A Scale without a resourceVersion is of any.
	if scale.ResourceVersion != "" {
		current.SetResourceVersion(scale.ResourceVersion)
	}
	if scale.UID != "" {
		current.SetUID(scale.UID)
	}
	return current, nil
}

func (s scales) record(o *opened, record *codec.Record) (*codec.Record, error) {
	obj, err := record.Shared()
	if err != nil {
		return nil, err
	}
	scale, err := o.show(obj)
	if err != nil {
		return nil, err
	}
	if _, found, _ := unstructured.NestedInt64(content(obj), steps(o.scale.SpecReplicasPath)...); !found {
		return nil, apierrors.NewInternalError(fmt.Errorf("the spec replicas field %q does not exist", o.scale.SpecReplicasPath))
	}
	return codec.RecordOf(s.kind, scale, nil, record.Revision()), nil
}

// show makes the Scale of an object, without its managed fields.
func (o *opened) show(obj codec.Object) (*autoscalingv1.Scale, error) {
	if o.scale == nil {
		return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "scale"}, obj.GetName())
	}
	doc := content(obj)
	wanted, _, err := unstructured.NestedInt64(doc, steps(o.scale.SpecReplicasPath)...)
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	have, _, err := unstructured.NestedInt64(doc, steps(o.scale.StatusReplicasPath)...)
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	selector := ""
	if path := o.scale.LabelSelectorPath; path != nil && *path != "" {
		if selector, _, err = unstructured.NestedString(doc, steps(*path)...); err != nil {
			return nil, apierrors.NewInternalError(err)
		}
	}
	return &autoscalingv1.Scale{
		TypeMeta: metav1.TypeMeta{Kind: "Scale", APIVersion: autoscalingv1.SchemeGroupVersion.String()},
		ObjectMeta: metav1.ObjectMeta{
			Name: obj.GetName(), Namespace: obj.GetNamespace(), UID: obj.GetUID(),
			ResourceVersion: obj.GetResourceVersion(), CreationTimestamp: obj.GetCreationTimestamp(),
		},
		Spec:   autoscalingv1.ScaleSpec{Replicas: int32(wanted)},
		Status: autoscalingv1.ScaleStatus{Replicas: int32(have), Selector: selector},
	}, nil
}

// replicasPaths are where the versions of a definition keep replicas.
func replicasPaths(crd *apiextensionsv1.CustomResourceDefinition) map[string]fieldpath.Path {
	paths := map[string]fieldpath.Path{}
	for i := range crd.Spec.Versions {
		v := &crd.Spec.Versions[i]
		if v.Subresources == nil || v.Subresources.Scale == nil {
			continue
		}
		var path fieldpath.Path
		for _, step := range steps(v.Subresources.Scale.SpecReplicasPath) {
			path = append(path, fieldpath.FieldNameElement(step))
		}
		paths[schema.GroupVersion{Group: crd.Spec.Group, Version: v.Name}.String()] = path
	}
	return paths
}
