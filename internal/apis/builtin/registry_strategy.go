package builtin

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"mainstay.dev/mainstay/internal/apis/builtin/validation"
	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/registry"
)

// rules is the type of the Validate hooks of Strategy and Status.
type rules func(f validation.Field, obj, old codec.Object)

// strategy creates the registry strategy of the main resource.
func (r *resource) strategy(env *Env, kind *codec.Kind) *registry.Strategy {
	policy, hooks, deletion := &r.WritePolicy, &r.Strategy, &r.Deletion
	s := &registry.Strategy{
		Namespaced: r.Namespaced, ValidateName: policy.ValidateName, ExactGenerateName: policy.ExactGenerateName,
		Generation:          policy.Generation && (policy.GenerationGate == "" || env.Gates.Enabled(policy.GenerationGate)),
		AllowCreateOnUpdate: policy.AllowCreateOnUpdate, RequireResourceVersion: policy.RequireResourceVersion,
		Finalizers: registry.RejectUnqualifiedFinalizers, OrphanByDefault: deletion.OrphanByDefault,
		GracePeriod: deletion.GracePeriod, BlocksRemoval: deletion.Blocked, PrepareForDelete: deletion.Prepare,
		SpecChanged: hooks.SpecChanged,
	}
	if policy.AllowAnyFinalizer {
		s.Finalizers = registry.AllowUnqualifiedFinalizers
	}
	if s.SpecChanged == nil {
		s.SpecChanged = r.specStatus().specChanged
	}
	if hooks.Authorize != nil {
		s.Authorize = func(ctx context.Context, obj, old codec.Object) error {
			return hooks.Authorize(&Operation{Context: ctx, Env: env}, obj, old)
		}
	}
	r.setPrepare(env, kind, s)
	validate := withExternal(env, hooks.ValidateExternal, hooks.Validate)
	if validate != nil {
		s.Validate = func(ctx context.Context, obj codec.Object) field.ErrorList {
			return env.built.validator.Validate(ctx, func(f validation.Field) { validate(f, obj, nil) })
		}
	}
	s.ValidateUpdate = validateUpdate(env, validate)
	r.setWarnings(env, s)
	if hooks.BeginTransaction != nil {
		s.BeginTransaction = func(ctx context.Context, obj, old codec.Object, dryRun bool) (registry.Transaction, error) {
			return hooks.BeginTransaction(&Operation{Context: ctx, Env: env, DryRun: dryRun}, obj, old)
		}
	}
	if ttl := r.Storage.TTL; ttl != nil {
		s.TTL = func(codec.Object) time.Duration { return ttl(env) }
	}
	return s
}

func (r *resource) setPrepare(env *Env, kind *codec.Kind, s *registry.Strategy) {
	hooks, fields := &r.Strategy, r.specStatus()
	s.PrepareForCreate = func(ctx context.Context, obj codec.Object) {
		if r.Status != nil && !r.Status.AllowOnCreate {
			fields.clearStatus(obj)
		}
		r.dropDisabled(env, kind, obj, nil)
		if hooks.PrepareForCreate != nil {
			hooks.PrepareForCreate(&Operation{Context: ctx, Env: env}, obj)
		}
	}
	s.PrepareForUpdate = func(ctx context.Context, obj, old codec.Object) {
		if r.Status != nil {
			fields.preserveStatus(obj, old)
		}
		if hooks.PrepareForUpdate != nil {
			hooks.PrepareForUpdate(&Operation{Context: ctx, Env: env}, obj, old)
		}
		r.dropDisabled(env, kind, obj, old)
	}
}

func (r *resource) setWarnings(env *Env, s *registry.Strategy) {
	warnings := r.Strategy.Warnings
	if warnings == nil {
		return
	}
	s.WarningsOnCreate = func(ctx context.Context, obj codec.Object) []string {
		return warnings(&Operation{Context: ctx, Env: env}, obj, nil)
	}
	s.WarningsOnUpdate = func(ctx context.Context, obj, old codec.Object) []string {
		return warnings(&Operation{Context: ctx, Env: env}, obj, old)
	}
}

// statusStrategy creates the registry strategy of /status from the strategy of the main resource.
func (r *resource) statusStrategy(env *Env, store *registry.Store) *registry.Strategy {
	main, status, fields := store.Strategy, r.Status, r.specStatus()
	var preserve []func(obj, old codec.Object)
	for _, name := range status.PreservedMetadata {
		preserve = append(preserve, preserveMetadata(name))
	}
	s := *main
	s.SpecChanged = nil // a status change does not increment the generation
	s.BeginTransaction = beginRemovals(main.BeginTransaction)
	s.PrepareForUpdate = func(ctx context.Context, obj, old codec.Object) {
		fields.preserveAllButStatus(obj, old)
		for _, f := range preserve {
			f(obj, old)
		}
		r.dropDisabled(env, store.Kind, obj, old)
		if status.PrepareForUpdate != nil {
			status.PrepareForUpdate(&Operation{Context: ctx, Env: env}, obj, old)
		}
	}
	s.ValidateUpdate = validateUpdate(env, withExternal(env, status.ValidateExternal, status.Validate))
	s.WarningsOnUpdate = nil
	return &s
}

// beginRemovals returns the BeginTransaction hook of /status. A status update allocates nothing, but it can
// remove the last finalizer, which deletes the object. Only then is begin called.
func beginRemovals(begin registry.BeginTransactionFunc) registry.BeginTransactionFunc {
	if begin == nil {
		return nil
	}
	return func(ctx context.Context, obj, old codec.Object, dryRun bool) (registry.Transaction, error) {
		if obj != nil {
			return registry.Transaction{}, nil
		}
		return begin(ctx, nil, old, dryRun)
	}
}

// withExternal returns a rules function that runs a ValidateExternal hook before validate. Both external and
// validate may be nil.
func withExternal(env *Env, external func(op *Operation, f validation.Field, obj, old codec.Object), validate rules) rules {
	if external == nil {
		return validate
	}
	return func(f validation.Field, obj, old codec.Object) {
		external(&Operation{Context: f.Context(), Env: env}, f, obj, old)
		if validate != nil {
			validate(f, obj, old)
		}
	}
}

func validateUpdate(env *Env, validate rules) func(context.Context, codec.Object, codec.Object) field.ErrorList {
	if validate == nil {
		return nil
	}
	return func(ctx context.Context, obj, old codec.Object) field.ErrorList {
		return env.built.validator.Validate(ctx, func(f validation.Field) { validate(f, obj, old) })
	}
}
