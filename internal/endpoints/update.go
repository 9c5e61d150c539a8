package endpoints

import (
	"context"
	"net/http"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mainstay.dev/mainstay/internal/admission"
	"mainstay.dev/mainstay/internal/authorizer"
	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/request"
	"mainstay.dev/mainstay/internal/rest"
)

// update handles PUT requests for an object.
func (c *call) update(s rest.Updater) error {
	t, err := c.negotiate(forObject)
	if err != nil {
		return err
	}
	options, err := c.updateOptions()
	if err != nil {
		return err
	}
	body, media, err := c.objectBody(c.resource.Version)
	if err != nil {
		return err
	}
	sent, err := c.replacement(options, body, media)
	if err != nil {
		return err
	}
	rules := c.updateRules(c.r.Context(), options, false)
	if uid := sent.GetUID(); uid != "" {
		rules.Preconditions = &metav1.Preconditions{UID: &uid} // the UID restricts the update to this object
	}
	manager := c.fieldManager(options.FieldManager)
	change := func(_ context.Context, current codec.Object) (codec.Object, error) {
		// The caller modifies and retains the returned object. If storage calls the function again, which
		// is rare, the object is decoded again.
		obj, err := sent, error(nil)
		if sent = nil; obj == nil {
			obj, err = c.replacement(options, body, media)
		}
		if err != nil {
			return nil, err
		}
		if current == nil {
			return c.recordCreation(obj, manager)
		}
		return c.recordUpdate(current, obj, manager)
	}
	record, created, err := c.operation.update(c.r.Context(), s, c.withAdmission(change, options), rules)
	if err != nil {
		return err
	}
	return c.respondRecord(t, statusCode(created), record)
}

// replacement decodes and checks the object in the body of a PUT request. The caller owns the result.
func (c *call) replacement(options *metav1.UpdateOptions, body []byte, media codec.Media) (codec.Object, error) {
	obj, err := c.decodeObject(c.resource.Version, options.FieldValidation, body, media)
	if err != nil {
		return nil, err
	}
	if err := c.checkName(obj); err != nil {
		return nil, err
	}
	if err := c.setNamespace(obj); err != nil {
		return nil, err
	}
	dedupOwnerReferences(c.r.Context(), obj, duplicateOwnersWarning)
	return obj, nil
}

func statusCode(created bool) int {
	if created {
		return http.StatusCreated
	}
	return http.StatusOK
}

// updateRules returns the options for the storage, with validating admission.
func (o *operation) updateRules(ctx context.Context, options *metav1.UpdateOptions, allowCreate bool) rest.UpdateOptions {
	return rest.UpdateOptions{
		UpdateOptions:  *options,
		Validate:       o.api.config.Admission.ValidateFunc(o.request(ctx, admission.Update, o.info.Name, options, options.DryRun)),
		ValidateCreate: o.createValidation(options),
		AllowCreate:    allowCreate,
	}
}

// createOptionsOf returns the create options for an update request that creates the object.
func createOptionsOf(options *metav1.UpdateOptions) *metav1.CreateOptions {
	return &metav1.CreateOptions{
		TypeMeta: optionsType("CreateOptions"),
		DryRun:   options.DryRun, FieldManager: options.FieldManager, FieldValidation: options.FieldValidation,
	}
}

// createValidation returns the validation for an update request that creates the object. The function first
// checks whether the user may create the object, and then runs validating admission. createValidation
// returns nil if both checks are disabled.
func (o *operation) createValidation(options *metav1.UpdateOptions) rest.ValidateObjectFunc {
	chain := o.api.config.Admission
	if o.authorizer == nil && !chain.Validates(admission.Create) {
		return nil
	}
	checked, denied := false, error(nil)
	return func(ctx context.Context, obj, old codec.Object) error {
		if !checked { // storage calls this again after a conflict
			checked, denied = true, o.authorizeCreate(ctx)
		}
		if denied != nil {
			return denied
		}
		validate := chain.ValidateFunc(o.request(ctx, admission.Create, o.info.Name, createOptionsOf(options), options.DryRun))
		if validate == nil {
			return nil
		}
		return validate(ctx, obj, old)
	}
}

// authorizeCreate returns an error if the user is not allowed to create the object of the request.
func (o *operation) authorizeCreate(ctx context.Context) error {
	if o.authorizer == nil {
		return nil
	}
	a := authorizer.AttributesOf(request.UserFrom(ctx), o.info)
	a.Verb = "create"
	decision, reason, err := o.authorizer.Authorize(ctx, &a)
	switch {
	case decision == authorizer.DecisionAllow:
		return nil
	case err != nil:
		return apierrors.NewInternalError(err)
	}
	return authorizer.Forbidden(&a, reason)
}

// withAdmission returns an UpdateFunc that runs change and then mutating admission. If they changed only
// the times in managed fields, the object stays unchanged. Changes of large objects are slow, so the
// function starts no step after ctx has ended.
func (o *operation) withAdmission(change rest.UpdateFunc, options *metav1.UpdateOptions) rest.UpdateFunc {
	return func(ctx context.Context, current codec.Object) (codec.Object, error) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		obj, err := change(ctx, current)
		if err != nil {
			return nil, err
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		var admissionRequest admission.Request
		if current == nil {
			admissionRequest = o.request(ctx, admission.Create, o.info.Name, createOptionsOf(options), options.DryRun)
		} else {
			admissionRequest = o.request(ctx, admission.Update, o.info.Name, options, options.DryRun)
		}
		if obj, err = o.mutate(ctx, &admissionRequest, obj, current); err != nil {
			return nil, err
		}
		if current != nil {
			keepFieldTimes(obj, current)
		}
		return obj, nil
	}
}

// keepFieldTimes restores the old managed fields if the new ones differ only in their times, so that a
// write without any other change is a no-op.
func keepFieldTimes(obj, old codec.Object) {
	now, before := obj.GetManagedFields(), old.GetManagedFields()
	if len(now) != len(before) {
		return
	}
	for i := range now {
		a, b := now[i], before[i]
		a.Time, b.Time = nil, nil
		if !equality.Semantic.DeepEqual(a, b) {
			return
		}
	}
	obj.SetManagedFields(before)
}
