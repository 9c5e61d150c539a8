package endpoints

import (
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mainstay.dev/mainstay/admission"
	"mainstay.dev/mainstay/codec"
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
	dedupOwnerReferences(ctx, obj, ownersRepeated)
	if obj, err = c.recordCreation(obj, c.fieldManager(options.FieldManager)); err != nil {
		return err
	}
	asked := c.request(admission.Create, obj.GetName(), options, options.DryRun)
	if obj, err = c.mutate(ctx, &asked, obj, nil); err != nil {
		return err
	}
	telemetry.Step(ctx, "admitted")
	record, err := s.Create(ctx, obj, c.api.config.Admission.Validation(asked), *options)
	if err != nil {
		return err
	}
	telemetry.Step(ctx, "stored")
	return c.respondCreated(t, record)
}

// newObject reads what is to be created, and how.
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
	asked := c.request(admission.Create, c.info.Name, options, options.DryRun)
	if obj, err = c.mutate(ctx, &asked, obj, nil); err != nil {
		return err
	}
	record, err := s.CreateNamed(ctx, c.name(), obj, c.api.config.Admission.Validation(asked), *options)
	if err != nil {
		return err
	}
	return c.respondCreated(t, record)
}

// recordCreation records who owns which fields of a new object.
func (c *call) recordCreation(obj codec.Object, manager string) (codec.Object, error) {
	m, err := c.api.managers.For(c.resource)
	if err != nil || m == nil {
		return obj, err
	}
	return m.Update(c.newHub(), obj, manager), nil
}
