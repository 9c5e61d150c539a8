package endpoints

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/admission"
	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/request"
	"mainstay.dev/mainstay/internal/rest"
)

// The following methods implement writes for server code. They behave like the HTTP handlers: they
// maintain managed fields, run admission and apply the rules of the resource. ctx must be a
// request's context (request.NewContext) with an Info that contains the object and the authorized
// user. Package loopback creates such contexts.

// Create creates obj, which is in the version of the resource, and returns the stored record in the hub
// version. It takes ownership of obj. Errors are API errors.
func (a *API) Create(ctx context.Context, resource *rest.Resource, obj codec.Object, options metav1.CreateOptions) (*codec.Record, error) {
	s, ok := resource.Storage.(rest.Creater)
	if !ok {
		return nil, methodNotAllowed()
	}
	o := a.operation(ctx, resource)
	hub, err := o.defaultedHub(obj)
	if err != nil {
		return nil, err
	}
	if err := o.setNamespace(hub); err != nil {
		return nil, err
	}
	options.TypeMeta = optionsType("CreateOptions")
	o.auditRequestObject(ctx, hub)
	record, err := o.create(ctx, s, hub, options.FieldManager, &options)
	o.auditResponseObject(ctx, record)
	return record, err
}

// Update replaces an object with the result of change, and returns the stored record in the hub version.
// change receives an object in the resource's version, which it may modify and return. Update calls change
// again after a conflict, and returns errors of change as they are. If the object does not exist, Update
// returns an API error (404).
func (a *API) Update(ctx context.Context, resource *rest.Resource, change func(codec.Object) (codec.Object, error), options metav1.UpdateOptions) (*codec.Record, error) {
	s, ok := resource.Storage.(rest.Updater)
	if !ok {
		return nil, methodNotAllowed()
	}
	o := a.operation(ctx, resource)
	options.TypeMeta = optionsType("UpdateOptions")
	updated := func(_ context.Context, current codec.Object) (codec.Object, error) {
		if current == nil {
			return nil, apierrors.NewNotFound(resource.GroupResource(), o.info.Name)
		}
		obj, err := o.changed(current, change)
		if err != nil {
			return nil, err
		}
		o.auditRequestObject(ctx, obj)
		return o.recordUpdate(current, obj, options.FieldManager)
	}
	record, _, err := o.update(ctx, s, o.withAdmission(o.rejectRename(updated), &options), o.updateRules(ctx, &options, false))
	o.auditResponseObject(ctx, record)
	return record, err
}

// Apply applies a configuration for the field manager in options (KEP-555). It creates the object if it
// does not exist. It does not modify configuration. A conflict with another manager is an API error (409)
// unless options.Force is set. If managed fields are disabled, Apply returns an error.
func (a *API) Apply(ctx context.Context, resource *rest.Resource, configuration *unstructured.Unstructured, options metav1.ApplyOptions) (*codec.Record, error) {
	s, ok := resource.Storage.(rest.Updater)
	if !ok {
		return nil, methodNotAllowed()
	}
	o := a.operation(ctx, resource)
	fields := a.managers.For(resource)
	if fields == nil {
		return nil, fmt.Errorf("%s has no managed fields", resource.FullName())
	}
	updating := &metav1.UpdateOptions{TypeMeta: optionsType("UpdateOptions"), DryRun: options.DryRun, FieldManager: options.FieldManager}
	o.auditRequestObject(ctx, configuration)
	change := o.rejectRename(o.applyFunc(fields, configuration.Object, options.FieldManager, options.Force))
	record, _, err := o.update(ctx, s, o.withAdmission(change, updating), o.updateRules(ctx, updating, resource.Subresource == ""))
	o.auditResponseObject(ctx, record)
	return record, err
}

// Delete deletes an object. gone reports whether the object no longer exists; otherwise it is
// marked for deletion. record is the last state of the object. Errors are API errors.
func (a *API) Delete(ctx context.Context, resource *rest.Resource, options metav1.DeleteOptions) (record *codec.Record, gone bool, err error) {
	s, ok := resource.Storage.(rest.GracefulDeleter)
	if !ok {
		return nil, false, methodNotAllowed()
	}
	options.TypeMeta = optionsType("DeleteOptions")
	o := a.operation(ctx, resource)
	auditRequestBody(ctx, &options)
	record, gone, err = o.delete(ctx, s, &options)
	if !gone {
		o.auditResponseObject(ctx, record)
	}
	return record, gone, err
}

// NewDeleter returns a function that deletes single objects of a collection, with the same admission as a
// collection deletion. The function is safe for concurrent use. gone reports whether the object no longer
// exists; otherwise it is marked for deletion. If the resource does not support deletion, NewDeleter returns
// an API error (405). The errors of the function are API errors.
func (a *API) NewDeleter(ctx context.Context, resource *rest.Resource, options metav1.DeleteOptions) (func(context.Context, types.NamespacedName) (gone bool, err error), error) {
	s, ok := resource.Storage.(rest.GracefulDeleter)
	if !ok {
		return nil, methodNotAllowed()
	}
	options.TypeMeta = optionsType("DeleteOptions")
	admissionRequest := a.operation(ctx, resource).request(ctx, admission.Delete, "", &options, options.DryRun)
	validate := a.config.Admission.ValidateDeletionFunc(admissionRequest)
	return func(ctx context.Context, name types.NamespacedName) (bool, error) {
		_, gone, err := s.Delete(ctx, name, validate, options)
		return gone, err
	}, nil
}

// RecordOwnership returns obj with its managed fields updated so that manager owns the fields in which obj
// differs from live. It is meant for writes that bypass the methods of API. Both objects are in the hub
// version. RecordOwnership does not modify live, but may modify and return obj. It returns an API error if
// obj has too many managers.
func (a *API) RecordOwnership(resource *rest.Resource, live, obj codec.Object, manager string) (codec.Object, error) {
	o := &operation{api: a, resource: resource}
	return o.recordUpdate(live, obj, manager)
}

// operation returns an operation of server code, without authorization.
func (a *API) operation(ctx context.Context, resource *rest.Resource) *operation {
	return &operation{api: a, resource: resource, info: request.InfoFrom(ctx)}
}

// changed calls change with a copy of current in the resource's version. It returns the result in the hub
// version, with defaults.
func (o *operation) changed(current codec.Object, change func(codec.Object) (codec.Object, error)) (codec.Object, error) {
	obj, err := o.versioned(current.DeepCopyObject().(codec.Object))
	if err != nil {
		return nil, err
	}
	if obj, err = change(obj); err != nil {
		return nil, err
	}
	return o.defaultedHub(obj)
}

// defaultedHub sets the defaults of an object and converts it to the hub version. Decoding does both
// for the objects of HTTP clients.
func (o *operation) defaultedHub(obj codec.Object) (codec.Object, error) {
	v := o.resource.Version
	if v.Default != nil {
		v.Default(obj)
	}
	return o.toHub(v, obj)
}
