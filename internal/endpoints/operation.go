package endpoints

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"mainstay.dev/mainstay/internal/admission"
	"mainstay.dev/mainstay/internal/authorizer"
	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/request"
	"mainstay.dev/mainstay/internal/rest"
	"mainstay.dev/mainstay/internal/telemetry"
)

// operation is a request for a resource, independent of HTTP. It passes an object through managed fields
// and admission to storage. Requests of clients (call) and of server code (API.Update and others) share it.
type operation struct {
	api      *API
	resource *rest.Resource
	info     *request.Info
	// authorizer checks the permission to create an object if an update or patch does not find it; nil
	// skips the check.
	authorizer authorizer.Authorizer
	// mutators contains the names of the policies and webhooks that modified the object in admission.
	mutators []string
	// explanation records the effects of admission; nil records nothing.
	explanation *admission.Explanation
	// lookups caches the lookups of the mutating pass of admission for its validating pass.
	lookups admission.Lookups
}

// create stores a new object, and records manager as the owner of its fields. It takes ownership of obj.
func (o *operation) create(ctx context.Context, s rest.Creater, obj codec.Object, manager string, options *metav1.CreateOptions) (*codec.Record, error) {
	dedupOwnerReferences(ctx, obj, duplicateOwnersWarning)
	obj, err := o.recordCreation(obj, manager)
	if err != nil {
		return nil, err
	}
	admissionRequest := o.request(ctx, admission.Create, obj.GetName(), options, options.DryRun)
	if obj, err = o.mutate(ctx, &admissionRequest, obj, nil); err != nil {
		return nil, err
	}
	telemetry.Step(ctx, "admitted")
	record, err := s.Create(ctx, obj, o.api.config.Admission.ValidateFunc(admissionRequest), *options)
	if err != nil {
		o.warnAdmissionChanges(ctx, err)
		return nil, err
	}
	telemetry.Step(ctx, "stored")
	return record, nil
}

// update stores the result of change, which includes mutating admission (see withAdmission).
func (o *operation) update(ctx context.Context, s rest.Updater, change rest.UpdateFunc, rules rest.UpdateOptions) (record *codec.Record, created bool, err error) {
	record, created, err = s.Update(ctx, o.name(), change, rules)
	if err != nil {
		o.warnAdmissionChanges(ctx, err)
		return nil, false, err
	}
	telemetry.Step(ctx, "stored")
	return record, created, nil
}

// delete deletes the object or marks it for deletion.
func (o *operation) delete(ctx context.Context, s rest.GracefulDeleter, options *metav1.DeleteOptions) (record *codec.Record, gone bool, err error) {
	admissionRequest := o.request(ctx, admission.Delete, o.info.Name, options, options.DryRun)
	record, gone, err = s.Delete(ctx, o.name(), o.api.config.Admission.ValidateDeletionFunc(admissionRequest), *options)
	if err != nil {
		return nil, false, err
	}
	telemetry.Step(ctx, "deleted")
	return record, gone, nil
}

func (o *operation) name() types.NamespacedName {
	return types.NamespacedName{Namespace: o.namespace(), Name: o.info.Name}
}

// namespace returns the namespace of the object; "" for a cluster-scoped resource.
func (o *operation) namespace() string {
	if !o.resource.Namespaced {
		return ""
	}
	return o.info.Namespace
}

// newHub returns an empty object of the resource's kind in the hub version.
func (o *operation) newHub() codec.Object {
	obj := o.resource.Kind.Hub.New()
	obj.GetObjectKind().SetGroupVersionKind(o.resource.Kind.Hub.GVK)
	return obj
}

// setNamespace sets the namespace of a client's object to the namespace in the request's path, and rejects
// an object with a different namespace. For a cluster-scoped kind, it clears the namespace as in
// kube-apiserver, because clients set it for all kinds.
func (o *operation) setNamespace(obj codec.Object) error {
	if !o.resource.Namespaced {
		if obj.GetNamespace() != "" {
			obj.SetNamespace("")
		}
		return nil
	}
	switch namespace := o.namespace(); obj.GetNamespace() {
	case "":
		obj.SetNamespace(namespace)
	case namespace:
	default:
		return apierrors.NewBadRequest("the namespace of the provided object does not match the namespace sent on the request")
	}
	return nil
}

// checkName rejects an object whose name differs from the name in the path.
func (o *operation) checkName(obj codec.Object) error {
	switch obj.GetName() {
	case o.info.Name:
		return nil
	case "":
		return apierrors.NewBadRequest(fmt.Sprintf("the name of the object (%s based on URL) was undeterminable: name must be provided", o.info.Name))
	}
	return apierrors.NewBadRequest(fmt.Sprintf("the name of the object (%s) does not match the name on the URL (%s)", obj.GetName(), o.info.Name))
}

// recordCreation records manager as the owner of the fields of a new object.
func (o *operation) recordCreation(obj codec.Object, manager string) (codec.Object, error) {
	m := o.api.managers.For(o.resource)
	if m == nil {
		return obj, nil
	}
	if err := o.checkManagers(obj); err != nil {
		return nil, err
	}
	return m.Update(o.newHub(), obj, manager), nil
}

// recordUpdate records manager as the owner of the fields that it changed.
func (o *operation) recordUpdate(live, obj codec.Object, manager string) (codec.Object, error) {
	m := o.api.managers.For(o.resource)
	if m == nil {
		return obj, nil
	}
	if err := o.checkManagers(obj); err != nil {
		return nil, err
	}
	return m.Update(live, obj, manager), nil
}

// maxManagers is the maximum number of managedFields entries that a client may send. The time to merge
// entries grows with the square of their number.
const maxManagers = 1000

// checkManagers rejects an object with too many managedFields entries.
func (o *operation) checkManagers(obj codec.Object) error {
	n := fieldsOf(obj).len()
	if n <= maxManagers {
		return nil
	}
	return apierrors.NewInvalid(o.resource.Version.GVK.GroupKind(), obj.GetName(), field.ErrorList{
		field.TooMany(field.NewPath("metadata", "managedFields"), n, maxManagers),
	})
}

// rejectRename returns an UpdateFunc that fails if change changes the name or namespace of the object.
func (o *operation) rejectRename(change rest.UpdateFunc) rest.UpdateFunc {
	return func(ctx context.Context, current codec.Object) (codec.Object, error) {
		obj, err := change(ctx, current)
		if err != nil {
			return nil, err
		}
		if err := o.checkName(obj); err != nil {
			return nil, err
		}
		return obj, o.setNamespace(obj)
	}
}

// withDefaults sets the defaults of an unstructured object after an apply; no manager owns the added
// fields. Typed objects already have their defaults, because the conversion to the Go type sets them. If an
// applied null has no default, it stays null and is validated. In contrast, a null in a created or updated
// object counts as omitted.
func (o *operation) withDefaults(merged codec.Object) codec.Object {
	v := o.resource.Version
	u, ok := merged.(*unstructured.Unstructured)
	if !ok || !v.Untyped || v.Default == nil {
		return merged
	}
	out := u.DeepCopy() // merged may share memory with the live object
	v.Default(out)
	keepNulls(u.Object, out.Object)
	return out
}
