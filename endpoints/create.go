package endpoints

import (
	"context"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mainstay.dev/mainstay/admission"
	"mainstay.dev/mainstay/codec"
	"mainstay.dev/mainstay/request"
	"mainstay.dev/mainstay/rest"
	"mainstay.dev/mainstay/telemetry"
)

// create answers POST to a collection.
func (c *call) create(s rest.Creater) error {
	t, options, obj, err := c.newObject()
	if err != nil {
		return err
	}
	ctx := c.r.Context()
	a := c.attributes(admission.Create, obj.GetName(), len(options.DryRun) > 0)
	if obj, err = c.admitNew(ctx, a, obj, c.fieldManager(options.FieldManager)); err != nil {
		return err
	}
	telemetry.Step(ctx, "admitted")
	record, err := s.Create(ctx, obj, c.api.config.Admission.Validation(a), options)
	if err != nil {
		return err
	}
	telemetry.Step(ctx, "stored")
	return c.respondCreated(t, record)
}

// newObject reads what is to be created, and how.
func (c *call) newObject() (t target, options metav1.CreateOptions, obj codec.Object, err error) {
	if t, err = c.negotiate(forObject); err != nil {
		return t, options, nil, err
	}
	if options, err = c.createOptions(); err != nil {
		return t, options, nil, err
	}
	if obj, err = c.decodeBody(c.resource.Version, options.FieldValidation); err != nil {
		return t, options, nil, err
	}
	return t, options, obj, c.place(obj)
}

// respondCreated answers with what was created, or, where there is nothing to
// show, with success.
func (c *call) respondCreated(t target, record *codec.Record) error {
	if record == nil {
		return c.respondDone(t, http.StatusCreated)
	}
	return c.respondRecord(t, http.StatusCreated, record)
}

// createNamed answers POST to a subresource of an object.
func (c *call) createNamed(s rest.NamedCreater) error {
	t, options, obj, err := c.newObject()
	if err != nil {
		return err
	}
	ctx := c.r.Context()
	a := c.attributes(admission.Create, c.info.Name, len(options.DryRun) > 0)
	a.Object = obj
	if err := c.api.config.Admission.Mutate(ctx, &a); err != nil {
		return err
	}
	record, err := s.CreateNamed(ctx, c.name(), obj, c.api.config.Admission.Validation(a), options)
	if err != nil {
		return err
	}
	return c.respondCreated(t, record)
}

// admitNew records who owns which fields of a new object and lets admission
// change it.
func (c *call) admitNew(ctx context.Context, a admission.Attributes, obj codec.Object, manager string) (codec.Object, error) {
	dedupOwnerReferences(ctx, obj)
	if m, err := c.api.managers.For(c.resource); err != nil {
		return nil, err
	} else if m != nil {
		obj = m.Update(c.newHub(), obj, manager)
	}
	if len(c.api.config.Admission) == 0 {
		return obj, nil
	}
	a.Object = obj
	if err := c.api.config.Admission.Mutate(ctx, &a); err != nil {
		return nil, err
	}
	return obj, nil
}

func (c *call) attributes(op admission.Operation, name string, dryRun bool) admission.Attributes {
	return admission.Attributes{
		Operation: op, Resource: c.resource.GVR(), Subresource: c.resource.Subresource, Kind: c.resource.Version.GVK,
		Namespace: c.info.Namespace, Name: name, DryRun: dryRun, User: request.UserFrom(c.r.Context()),
	}
}
