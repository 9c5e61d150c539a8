package admission

import (
	"context"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/rest"
	"mainstay.dev/mainstay/internal/telemetry/tracing"
)

// Chain is a list of plugins in order of execution. It is safe for concurrent use, and must not be modified
// once it is in use. The zero value admits all requests.
type Chain []Plugin

// Mutates reports whether the chain has a mutating plugin for the operation.
func (c Chain) Mutates(op Operation) bool {
	for _, plugin := range c {
		if _, ok := plugin.(Mutator); ok && plugin.Handles(op) {
			return true
		}
	}
	return false
}

// Validates reports whether the chain has a validating plugin for the operation.
func (c Chain) Validates(op Operation) bool {
	for _, plugin := range c {
		if _, ok := plugin.(Validator); ok && plugin.Handles(op) {
			return true
		}
	}
	return false
}

// Mutate calls all mutating plugins in order, and repeats the pass once if a plugin requests it. It returns the
// first error, as a *RejectionError; the object may already have been modified by then. It blocks while plugins
// call webhooks, at most until ctx ends.
func (c Chain) Mutate(ctx context.Context, a *Attributes) (err error) {
	began := a.Metrics.now()
	defer func() { a.Metrics.observeStep(began, mutating, a.Operation, err) }()
	if a.Explanation != nil {
		a.Explanation.Steps = nil
	}
	if err := c.mutateOnce(ctx, a); err != nil || !a.reinvoke {
		return err
	}
	a.reinvoked = true
	return c.mutateOnce(ctx, a)
}

// mutateOnce runs one pass. All lookups of the pass share a rest.ReadPoint.
func (c Chain) mutateOnce(ctx context.Context, a *Attributes) error {
	ctx = rest.WithReadPoint(ctx)
	for _, plugin := range c {
		m, ok := plugin.(Mutator)
		if !ok || !plugin.Handles(a.Operation) {
			continue
		}
		observation, began := a.observe(ctx, plugin, mutating), a.Metrics.now()
		pluginCtx, span := tracing.StartNamed(ctx, "Mutate with", plugin.Name())
		err := m.Mutate(pluginCtx, a)
		span.End(err)
		a.Metrics.observePlugin(began, plugin.Name(), mutating, a.Operation, err)
		observation.end(ctx, a, err)
		if err != nil {
			return &RejectionError{plugin.Name(), err}
		}
		a.InvalidateConversions() // the plugin may have modified the object
	}
	return nil
}

// Validate calls the validating plugins in order and returns the first error, as a *RejectionError. It blocks
// while plugins call webhooks, at most until ctx ends.
func (c Chain) Validate(ctx context.Context, a *Attributes) (err error) {
	began := a.Metrics.now()
	defer func() { a.Metrics.observeStep(began, validating, a.Operation, err) }()
	ctx = rest.WithReadPoint(ctx)
	for _, plugin := range c {
		v, ok := plugin.(Validator)
		if !ok || !plugin.Handles(a.Operation) {
			continue
		}
		observation, began := a.observe(ctx, plugin, validating), a.Metrics.now()
		pluginCtx, span := tracing.StartNamed(ctx, "Validate with", plugin.Name())
		err := v.Validate(pluginCtx, a)
		span.End(err)
		a.Metrics.observePlugin(began, plugin.Name(), validating, a.Operation, err)
		observation.end(ctx, a, err)
		if err != nil {
			return &RejectionError{plugin.Name(), err}
		}
	}
	return nil
}

// ValidateFunc returns the function that REST storage calls with the final object of a create or update. It
// returns nil if the chain has no validating plugins for the operation.
func (c Chain) ValidateFunc(r Request) rest.ValidateObjectFunc {
	if !c.Validates(r.Operation) {
		return nil
	}
	return func(ctx context.Context, obj, old codec.Object) error {
		return c.Validate(ctx, r.attributes(obj, old))
	}
}

// ValidateDeletionFunc returns the function that REST storage calls with an object before its deletion. As in
// kube-apiserver, the function calls the mutating plugins as well. ValidateDeletionFunc returns nil if the
// chain has no plugins for the operation. The function is safe for concurrent use, because the deletions of a
// collection may run concurrently.
func (c Chain) ValidateDeletionFunc(r Request) rest.ValidateObjectFunc {
	if !c.Mutates(r.Operation) && !c.Validates(r.Operation) {
		return nil
	}
	return func(ctx context.Context, _, old codec.Object) error {
		a := r.attributes(nil, old)
		if r.Lookups != nil {
			a.Lookups = new(Lookups)
		}
		if err := c.Mutate(ctx, a); err != nil {
			return err
		}
		return c.Validate(ctx, a)
	}
}

// attributes returns the attributes of the request for an object.
func (r Request) attributes(obj, old codec.Object) *Attributes {
	a := &Attributes{Request: r, Old: old}
	if obj != nil {
		a.Object = obj
		if a.Name == "" { // the name was generated
			a.Name = obj.GetName()
		}
	}
	return a
}
