package endpoints

import (
	"context"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"mainstay.dev/mainstay/admission"
	"mainstay.dev/mainstay/codec"
	"mainstay.dev/mainstay/request"
	"mainstay.dev/mainstay/rest"
	"mainstay.dev/mainstay/telemetry"
)

// create answers POST to a collection.
func (c *call) create(s rest.Creater) error {
	t, err := c.negotiate(forObject)
	if err != nil {
		return err
	}
	options, err := c.createOptions()
	if err != nil {
		return err
	}
	obj, err := c.decodeBody(c.resource.Version, options.FieldValidation)
	if err != nil {
		return err
	}
	if err := c.place(obj); err != nil {
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
	return c.respondRecord(t, http.StatusCreated, record)
}

// createNamed answers POST to a subresource of an object.
func (c *call) createNamed(s rest.NamedCreater) error {
	t, err := c.negotiate(forObject)
	if err != nil {
		return err
	}
	options, err := c.createOptions()
	if err != nil {
		return err
	}
	obj, err := c.decodeBody(c.resource.Version, options.FieldValidation)
	if err != nil {
		return err
	}
	if err := c.place(obj); err != nil {
		return err
	}
	if name := obj.GetName(); name != "" && name != c.info.Name {
		return apierrors.NewBadRequest("the name of the object (" + name + ") does not match the name on the URL (" + c.info.Name + ")")
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
	if record == nil {
		return c.respondDone(t, http.StatusCreated)
	}
	return c.respondRecord(t, http.StatusCreated, record)
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
