package registry

import (
	"context"
	"errors"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/rest"
	"mainstay.dev/mainstay/internal/storage"
)

// Update implements rest.Updater. An update that removes the last finalizer of an object marked for
// deletion removes the object.
func (s *Store) Update(ctx context.Context, name types.NamespacedName, update rest.UpdateFunc, options rest.UpdateOptions) (*codec.Record, bool, error) {
	options.AllowCreate = options.AllowCreate || s.Strategy.AllowCreateOnUpdate
	return (&SubresourceStore{Store: s, Strategy: s.Strategy}).update(ctx, name, update, options)
}

// update stores the object that its argument update returns, by the rules of p.Strategy.
func (p *SubresourceStore) update(ctx context.Context, name types.NamespacedName, update rest.UpdateFunc, options rest.UpdateOptions) (*codec.Record, bool, error) {
	s, created := p.Store, false
	var record, removed *codec.Record
	err := s.transact(ctx, p.Strategy, isDryRun(options.DryRun), func(begin beginWrite) (err error) {
		record, err = s.Storage.Update(ctx, name, func(current *codec.Record) (codec.Object, storage.WriteOptions, error) {
			created, removed = current == nil, nil
			obj, write, err := p.nextState(ctx, name, current, update, begin, options)
			if errors.As(err, &storage.Remove{}) {
				removed = current
			}
			return obj, write, err
		}, storage.UpdateOptions{Preconditions: options.Preconditions, DryRun: isDryRun(options.DryRun)})
		return err
	})
	if err != nil {
		if created && errors.Is(err, storage.ErrExists) {
			return nil, false, s.existsError(ctx, name)
		}
		return nil, false, s.apiError(err, name.Name, "update")
	}
	if removed != nil { // as in kube-apiserver: the response has the revision before the removal
		record = record.WithRevision(removed.Revision())
	}
	return record, created, nil
}

// nextState returns the object that replaces the current one, and the options of its write. It
// returns the error storage.Remove if the update removes the last obstacle to the removal of an
// object marked for deletion.
func (p *SubresourceStore) nextState(ctx context.Context, name types.NamespacedName, current *codec.Record, update rest.UpdateFunc, begin beginWrite, options rest.UpdateOptions) (_ codec.Object, write storage.WriteOptions, err error) {
	s := p.Store
	if current == nil {
		if !options.AllowCreate {
			return nil, write, apierrors.NewNotFound(s.Resource, name.Name)
		}
		if p := options.Preconditions; p != nil && p.UID != nil {
			return nil, write, &storage.PreconditionError{Field: "UID", Want: string(*p.UID)}
		}
		return s.firstState(ctx, update, begin, options)
	}
	old, err := current.Shared()
	if err != nil {
		return nil, write, err
	}
	obj, err := update(ctx, old)
	if err != nil {
		return nil, write, err
	}
	if err := s.checkResourceVersion(p.Strategy, obj, old); err != nil {
		return nil, write, err
	}
	if err := s.withLimiter(ctx, func() error { return s.beforeUpdate(ctx, p.Strategy, obj, old) }); err != nil {
		return nil, write, err
	}
	next := obj
	if p.Strategy.isRemovable(obj, old) {
		next = nil
	}
	write = s.writeOptions(obj, options.DryRun)
	write.Subresource = p.Subresource
	if write.With, err = begin(next, old); err != nil {
		return nil, write, err
	}
	if options.Validate != nil {
		if err := options.Validate(ctx, obj, old); err != nil {
			return nil, write, err
		}
	}
	if next == nil {
		return nil, write, storage.Remove{Last: obj}
	}
	return obj, write, nil
}

// firstState returns the object that an update or apply creates, and the options of its write.
func (s *Store) firstState(ctx context.Context, update rest.UpdateFunc, begin beginWrite, options rest.UpdateOptions) (_ codec.Object, write storage.WriteOptions, err error) {
	obj, err := update(ctx, nil)
	if err != nil {
		return nil, write, err
	}
	// As in kube-apiserver, the resourceVersion of such a request is ignored.
	obj.SetResourceVersion("")
	if err := s.withLimiter(ctx, func() error { return s.beforeCreate(ctx, s.Strategy, obj) }); err != nil {
		return nil, write, err
	}
	write = s.writeOptions(obj, options.DryRun)
	if write.With, err = begin(obj, nil); err != nil {
		return nil, write, err
	}
	if options.ValidateCreate != nil {
		if err := options.ValidateCreate(ctx, obj, nil); err != nil {
			return nil, write, err
		}
	}
	return obj, write, nil
}

// checkResourceVersion enforces optimistic concurrency. It returns a 409 if obj and old have different
// resourceVersions. If obj has no resourceVersion, or the resourceVersion zero, which no object has, it sets
// the resourceVersion of old, or returns a 422 if the strategy has RequireResourceVersion.
func (s *Store) checkResourceVersion(strategy *Strategy, obj, old codec.Object) error {
	version := obj.GetResourceVersion()
	if revision, err := strconv.ParseUint(version, 10, 64); err == nil && revision == 0 {
		version = ""
	}
	switch {
	case version == "" && strategy.RequireResourceVersion:
		// As in kube-apiserver, only this message has the resource instead of the kind.
		resource := schema.GroupKind{Group: s.Resource.Group, Kind: s.Resource.Resource}
		return apierrors.NewInvalid(resource, obj.GetName(), field.ErrorList{
			field.Invalid(field.NewPath("metadata", "resourceVersion"), 0, "must be specified for an update"),
		})
	case version == "", version == old.GetResourceVersion():
		obj.SetResourceVersion(old.GetResourceVersion())
		return nil
	}
	return apierrors.NewConflict(s.Resource, old.GetName(), errors.New(modifiedMessage))
}

// beforeUpdate restores the system metadata, and prepares and validates the object by the rules of the
// strategy.
func (s *Store) beforeUpdate(ctx context.Context, strategy *Strategy, obj, old codec.Object) error {
	if strategy.Authorize != nil {
		if err := strategy.Authorize(ctx, obj, old); err != nil {
			return err
		}
	}
	preserveSystemMetadata(obj, old)
	if strategy.PrepareForUpdate != nil {
		strategy.PrepareForUpdate(ctx, obj, old)
	}
	if strategy.Generation && strategy.SpecChanged != nil && strategy.SpecChanged(obj, old) {
		obj.SetGeneration(old.GetGeneration() + 1)
	}
	errs := strategy.validateMetadataUpdate(obj, old)
	errs = append(errs, strategy.validateFinalizers(obj, old)...)
	if strategy.ValidateUpdate != nil {
		errs = append(errs, strategy.ValidateUpdate(ctx, obj, old)...)
	}
	if len(errs) > 0 {
		return s.invalid(obj, errs)
	}
	strategy.warnFinalizers(ctx, obj, old)
	if strategy.WarningsOnUpdate != nil {
		warn(ctx, strategy.WarningsOnUpdate(ctx, obj, old))
	}
	return nil
}

func preserveSystemMetadata(obj, old codec.Object) {
	obj.SetGeneration(old.GetGeneration())
	obj.SetSelfLink("")
	if obj.GetUID() == "" {
		obj.SetUID(old.GetUID())
	}
	obj.SetCreationTimestamp(old.GetCreationTimestamp())
	if old.GetDeletionTimestamp() != nil {
		obj.SetDeletionTimestamp(old.GetDeletionTimestamp())
	}
	if old.GetDeletionGracePeriodSeconds() != nil && obj.GetDeletionGracePeriodSeconds() == nil {
		obj.SetDeletionGracePeriodSeconds(old.GetDeletionGracePeriodSeconds())
	}
}

// anyPathSegment accepts every name. The name of an existing object cannot be changed, and may have
// been stored before the current rules for names.
func anyPathSegment(string, bool) []string { return nil }

// isRemovable reports whether an object has a deletion timestamp and can be removed, because it has no
// finalizers and no grace period left, and BlocksRemoval returns false.
func (s *Strategy) isRemovable(obj, old codec.Object) bool {
	if old.GetDeletionTimestamp() == nil || len(obj.GetFinalizers()) > 0 || s.blocksRemoval(obj) {
		return false
	}
	grace := old.GetDeletionGracePeriodSeconds()
	return grace == nil || *grace == 0
}

func (s *Strategy) blocksRemoval(obj codec.Object) bool {
	return s.BlocksRemoval != nil && s.BlocksRemoval(obj)
}
