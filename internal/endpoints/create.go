package endpoints

import (
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/admission"
	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/request"
	"mainstay.dev/mainstay/internal/rest"
)

// create handles POST requests for a collection.
func (c *call) create(s rest.Creater) error {
	t, options, obj, err := c.newObject()
	if err != nil {
		return err
	}
	if err := c.restore(obj); err != nil {
		return err
	}
	record, err := c.operation.create(c.r.Context(), s, obj, c.fieldManager(options.FieldManager), options)
	if err != nil {
		return err
	}
	return c.respondCreated(t, record)
}

// restoreParameter is the query parameter of a create request that restores a deleted object. Its value is
// a revision at which the object existed. The created object has the UID and the creationTimestamp of that
// revision, so that owner references to it stay valid.
const restoreParameter = "restoreFrom"

// restore finds the identity of the object that the request restores, if any, and records it in the context
// of the request.
func (c *call) restore(obj codec.Object) error {
	if !strings.Contains(c.r.URL.RawQuery, restoreParameter) {
		return nil // most creations
	}
	revision := c.r.URL.Query().Get(restoreParameter)
	if revision == "" {
		return nil
	}
	if c.api.config.Restore == nil {
		return apierrors.NewBadRequest(restoreParameter + " requires a server with a history")
	}
	ctx := c.r.Context()
	restored, err := c.api.config.Restore(ctx, c.resource.GroupResource(), types.NamespacedName{Namespace: obj.GetNamespace(), Name: obj.GetName()}, revision)
	if err != nil {
		return err
	}
	request.SetRestored(ctx, restored)
	return nil
}

// newObject negotiates the response to a create request, and decodes the request's object and options.
func (c *call) newObject() (t target, options *metav1.CreateOptions, obj codec.Object, err error) {
	if t, err = c.negotiate(forObject); err != nil {
		return t, options, nil, err
	}
	if options, err = c.createOptions(); err != nil {
		return t, options, nil, err
	}
	if obj, err = c.decodeBody(c.resource.Version, options.FieldValidation); err != nil {
		return t, options, nil, err
	}
	return t, options, obj, c.setNamespace(obj)
}

// respondCreated responds with the created object or, if record is nil, with a success Status.
func (c *call) respondCreated(t target, record *codec.Record) error {
	if record == nil {
		return c.respondSuccess(t, http.StatusCreated)
	}
	return c.respondRecord(t, http.StatusCreated, record)
}

// createNamed handles POST requests for a subresource of an object.
func (c *call) createNamed(s rest.NamedCreater) error {
	t, options, obj, err := c.newObject()
	if err != nil {
		return err
	}
	if obj, err = c.recordCreation(obj, c.fieldManager(options.FieldManager)); err != nil {
		return err
	}
	ctx := c.r.Context()
	admissionRequest := c.request(ctx, admission.Create, c.info.Name, options, options.DryRun)
	if obj, err = c.mutate(ctx, &admissionRequest, obj, nil); err != nil {
		return err
	}
	record, err := s.CreateNamed(ctx, c.name(), obj, c.api.config.Admission.ValidateFunc(admissionRequest), *options)
	if err != nil {
		return err
	}
	return c.respondCreated(t, record)
}
