package endpoints

import (
	"context"
	"fmt"
	"net/http"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mainstay.dev/mainstay/admission"
	"mainstay.dev/mainstay/codec"
	"mainstay.dev/mainstay/request"
	"mainstay.dev/mainstay/rest"
	"mainstay.dev/mainstay/telemetry"
)

// update answers PUT of an object.
func (c *call) update(s rest.Updater) error {
	t, err := c.negotiate(forObject)
	if err != nil {
		return err
	}
	options, err := c.updateOptions()
	if err != nil {
		return err
	}
	sent, err := c.decodeBody(c.resource.Version, options.FieldValidation)
	if err != nil {
		return err
	}
	if err := c.checkName(sent); err != nil {
		return err
	}
	if err := c.place(sent); err != nil {
		return err
	}
	manager := c.fieldManager(options.FieldManager)
	change := func(_ context.Context, current codec.Object) (codec.Object, error) {
		// The storage may ask again, so each answer is a copy.
		obj := sent.DeepCopyObject().(codec.Object)
		m, err := c.api.managers.For(c.resource)
		if err != nil || m == nil {
			return obj, err
		}
		if current == nil {
			return m.Update(c.newHub(), obj, manager), nil
		}
		return m.Update(current, obj, manager), nil
	}
	rules := c.updateRules(options, false)
	if uid := sent.GetUID(); uid != "" {
		rules.Preconditions = &metav1.Preconditions{UID: &uid} // whoever names one means that very object
	}
	record, created, err := s.Update(c.r.Context(), c.name(), c.admitted(change, len(options.DryRun) > 0), rules)
	if err != nil {
		return err
	}
	telemetry.Step(c.r.Context(), "stored")
	return c.respondRecord(t, codeOf(created), record)
}

func codeOf(created bool) int {
	if created {
		return http.StatusCreated
	}
	return http.StatusOK
}

// updateRules are how storage is to carry out an update.
func (c *call) updateRules(options metav1.UpdateOptions, allowCreate bool) rest.UpdateOptions {
	dryRun := len(options.DryRun) > 0
	return rest.UpdateOptions{
		UpdateOptions:  options,
		Validate:       c.api.config.Admission.Validation(c.attributes(admission.Update, c.info.Name, dryRun)),
		ValidateCreate: c.api.config.Admission.Validation(c.attributes(admission.Create, c.info.Name, dryRun)),
		AllowCreate:    allowCreate,
	}
}

// admitted lets mutating admission have its say after a change, and forgets a
// change that is none but for the time in managed fields. Changes of large
// objects take their time: none is begun or gone on with once ctx has ended.
func (c *call) admitted(change rest.UpdateFunc, dryRun bool) rest.UpdateFunc {
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
		dedupOwnerReferences(ctx, obj)
		op := admission.Update
		if current == nil {
			op = admission.Create
		}
		a := c.attributes(op, c.info.Name, dryRun)
		a.Object, a.Old = obj, current
		if err := c.api.config.Admission.Mutate(ctx, &a); err != nil {
			return nil, err
		}
		if current != nil {
			keepFieldTimes(obj, current)
		}
		return obj, nil
	}
}

// keepFieldTimes takes over the old managed fields where the new ones differ
// in nothing but their times: a write that changes nothing else is no write.
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

// dedupOwnerReferences drops owners that are named twice, with a warning.
func dedupOwnerReferences(ctx context.Context, obj codec.Object) {
	owners := obj.GetOwnerReferences()
	if len(owners) < 2 {
		return
	}
	kept := owners[:0:0]
	seen := map[string]bool{}
	for _, owner := range owners {
		key := fmt.Sprintf("%s\x00%s\x00%s\x00%s\x00%v\x00%v", owner.APIVersion, owner.Kind, owner.Name, owner.UID, deref(owner.Controller), deref(owner.BlockOwnerDeletion))
		if seen[key] {
			request.AddWarning(ctx, fmt.Sprintf(".metadata.ownerReferences contains duplicate entries; API server dedups owner references in 1.20+, and may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: %v", owner.UID))
			continue
		}
		seen[key] = true
		kept = append(kept, owner)
	}
	if len(kept) < len(owners) {
		obj.SetOwnerReferences(kept)
	}
}

func deref(b *bool) string {
	if b == nil {
		return ""
	}
	return fmt.Sprint(*b)
}
