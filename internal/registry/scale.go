package registry

import (
	"context"
	"fmt"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/rest"
)

// Scalable maps the objects of one store to Scales. Its functions must be safe for concurrent use.
type Scalable struct {
	// Objects reads and updates the objects by the rules of the main resource.
	Objects *SubresourceStore
	// Version is the version of the objects. ReplicasPaths contains the path of the desired
	// replicas in each version.
	Version       schema.GroupVersion
	ReplicasPaths managedfields.ResourcePathMappings
	// Read returns the values of a Scale for an object. It must not modify the object.
	Read func(obj codec.Object) (ScaleValues, error)
	// Write sets the desired replicas of an object.
	Write func(obj codec.Object, replicas int32) error
}

// ScaleValues are the values of a Scale for an object.
type ScaleValues struct {
	// SpecReplicas is the desired and StatusReplicas the observed number of replicas. Selector is
	// the label selector of the counted pods.
	SpecReplicas, StatusReplicas int32
	Selector                     string
	// MissingError is the error for read requests if the object has no desired number of replicas. If it is
	// nil, the number is reported as 0.
	MissingError error
}

// Scale is the REST storage of /scale: it reads and updates the stored object as an autoscaling/v1
// Scale. It is safe for concurrent use.
type Scale struct {
	// Kind is autoscaling/v1 Scale.
	Kind *codec.Kind
	// Open returns the mapping to use. It is called once per request, and may block.
	Open func(ctx context.Context) (*Scalable, error)
}

var (
	_ rest.Getter  = (*Scale)(nil)
	_ rest.Updater = (*Scale)(nil)
)

// ScaleVersion returns the codec.Version of autoscaling/v1 Scale.
func ScaleVersion() *codec.Version {
	return &codec.Version{
		GVK: autoscalingv1.SchemeGroupVersion.WithKind("Scale"), New: func() codec.Object { return new(autoscalingv1.Scale) },
	}
}

// Get implements rest.Getter.
func (s *Scale) Get(ctx context.Context, name types.NamespacedName, options metav1.GetOptions) (*codec.Record, error) {
	objects, err := s.Open(ctx)
	if err != nil {
		return nil, err
	}
	record, err := objects.Objects.Get(ctx, name, options)
	if err != nil {
		return nil, err
	}
	return s.record(objects, record)
}

// Update implements rest.Updater. A Scale has the resourceVersion and UID of its object, so they act as
// preconditions.
func (s *Scale) Update(ctx context.Context, name types.NamespacedName, update rest.UpdateFunc, options rest.UpdateOptions) (*codec.Record, bool, error) {
	objects, err := s.Open(ctx)
	if err != nil {
		return nil, false, err
	}
	if validate := options.Validate; validate != nil {
		options.Validate = func(ctx context.Context, obj, old codec.Object) error {
			scale, err := s.scaleOf(objects, obj)
			if err != nil {
				return err
			}
			before, err := s.scaleOf(objects, old)
			if err != nil {
				return err
			}
			return validate(ctx, scale, before)
		}
	}
	record, _, err := objects.Objects.Update(ctx, name, func(ctx context.Context, current codec.Object) (codec.Object, error) {
		return s.rescale(ctx, objects, current, update)
	}, options)
	if err != nil {
		return nil, false, err
	}
	shown, err := s.record(objects, record)
	return shown, false, err
}

// validateScale returns the errors of a client's Scale. Labels and annotations are validated
// although they are not stored.
func validateScale(scale *autoscalingv1.Scale) field.ErrorList {
	metadata := field.NewPath("metadata")
	errs := metav1validation.ValidateLabels(scale.Labels, metadata.Child("labels"))
	errs = append(errs, validation.ValidateAnnotations(scale.Annotations, metadata.Child("annotations"))...)
	if replicas := scale.Spec.Replicas; replicas < 0 {
		errs = append(errs, field.Invalid(field.NewPath("spec", "replicas"), replicas, "must be greater than or equal to 0"))
	}
	return errs
}

// rescale calls update with the Scale of current. It returns a copy of current with the replicas and managed
// fields of the Scale that update returns.
func (s *Scale) rescale(ctx context.Context, objects *Scalable, current codec.Object, update rest.UpdateFunc) (codec.Object, error) {
	before, err := s.scaleOf(objects, current)
	if err != nil {
		return nil, err
	}
	managers := managedfields.NewScaleHandler(current.GetManagedFields(), objects.Version, objects.ReplicasPaths)
	if before.ManagedFields, err = managers.ToSubresource(); err != nil {
		return nil, fmt.Errorf("read managed fields: %w", err)
	}
	updated, err := update(ctx, before)
	if err != nil {
		return nil, err
	}
	scale := updated.(*autoscalingv1.Scale)
	if errs := validateScale(scale); len(errs) > 0 {
		return nil, apierrors.NewInvalid(s.Kind.Hub.GVK.GroupKind(), scale.Name, errs)
	}
	entries, err := managers.ToParent(scale.ManagedFields)
	if err != nil {
		return nil, fmt.Errorf("write managed fields: %w", err)
	}
	obj := current.DeepCopyObject().(codec.Object)
	if err := objects.Write(obj, scale.Spec.Replicas); err != nil {
		return nil, fmt.Errorf("set replicas: %w", err)
	}
	obj.SetManagedFields(entries)
	// If the Scale has no resourceVersion, the update is unconditional.
	if scale.ResourceVersion != "" {
		obj.SetResourceVersion(scale.ResourceVersion)
	}
	if scale.UID != "" {
		obj.SetUID(scale.UID)
	}
	return obj, nil
}

// scaleOf returns the Scale of an object, without managed fields.
func (s *Scale) scaleOf(objects *Scalable, obj codec.Object) (*autoscalingv1.Scale, error) {
	values, err := objects.Read(obj)
	if err != nil {
		return nil, err
	}
	return s.scale(obj, values), nil
}

func (s *Scale) scale(obj codec.Object, values ScaleValues) *autoscalingv1.Scale {
	return &autoscalingv1.Scale{
		TypeMeta: metav1.TypeMeta{Kind: s.Kind.Hub.GVK.Kind, APIVersion: s.Kind.Hub.GVK.GroupVersion().String()},
		ObjectMeta: metav1.ObjectMeta{
			Name: obj.GetName(), Namespace: obj.GetNamespace(), UID: obj.GetUID(),
			ResourceVersion: obj.GetResourceVersion(), CreationTimestamp: obj.GetCreationTimestamp(),
		},
		Spec:   autoscalingv1.ScaleSpec{Replicas: values.SpecReplicas},
		Status: autoscalingv1.ScaleStatus{Replicas: values.StatusReplicas, Selector: values.Selector},
	}
}

func (s *Scale) record(objects *Scalable, record *codec.Record) (*codec.Record, error) {
	obj, err := record.Shared()
	if err != nil {
		return nil, err
	}
	values, err := objects.Read(obj)
	if err == nil {
		err = values.MissingError
	}
	if err != nil {
		return nil, err
	}
	return codec.RecordOf(s.Kind, s.scale(obj, values), nil, record.Revision()), nil
}
