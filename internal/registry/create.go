package registry

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/request"
	"mainstay.dev/mainstay/internal/rest"
	"mainstay.dev/mainstay/internal/simulation"
	"mainstay.dev/mainstay/internal/storage"
)

// Create implements rest.Creater. If an object with the generated name exists, Create generates another name.
// After nameAttempts names, it returns a conflict.
func (s *Store) Create(ctx context.Context, obj codec.Object, validate rest.ValidateObjectFunc, options metav1.CreateOptions) (*codec.Record, error) {
	generated := obj.GetName() == "" && obj.GetGenerateName() != ""
	for attempt := 1; ; attempt++ {
		candidate := obj
		if generated && attempt < nameAttempts {
			candidate = obj.DeepCopyObject().(codec.Object)
		}
		record, err := s.createOnce(ctx, candidate, validate, options)
		if generated && apierrors.IsAlreadyExists(err) {
			if attempt < nameAttempts {
				continue
			}
			return nil, apierrors.NewGenerateNameConflict(s.Resource, candidate.GetName(), 1)
		}
		return record, err
	}
}

func (s *Store) createOnce(ctx context.Context, obj codec.Object, validate rest.ValidateObjectFunc, options metav1.CreateOptions) (*codec.Record, error) {
	// As in kube-apiserver, a dry run accepts the resourceVersion.
	if isRevision(obj.GetResourceVersion()) && !isDryRun(options.DryRun) {
		return nil, apierrors.NewBadRequest("resourceVersion should not be set on objects to be created")
	}
	if err := s.withLimiter(ctx, func() error { return s.beforeCreate(ctx, s.Strategy, obj) }); err != nil {
		return nil, err
	}
	name := types.NamespacedName{Namespace: obj.GetNamespace(), Name: obj.GetName()}
	var record *codec.Record
	err := s.transact(ctx, s.Strategy, isDryRun(options.DryRun), func(begin beginWrite) (err error) {
		candidate := obj
		if s.Strategy.BeginTransaction != nil { // a conflict repeats the write
			candidate = obj.DeepCopyObject().(codec.Object)
		}
		write := s.writeOptions(candidate, options.DryRun)
		if write.With, err = begin(candidate, nil); err != nil {
			return err
		}
		if validate != nil {
			if err := validate(ctx, candidate, nil); err != nil {
				return err
			}
		}
		record, err = s.Storage.Create(ctx, candidate, write)
		return err
	})
	if errors.Is(err, storage.ErrExists) {
		return nil, s.existsError(ctx, name)
	}
	if err != nil {
		return nil, s.apiError(err, name.Name, "create")
	}
	return record, nil
}

// isRevision reports whether a client's resourceVersion identifies a revision of an object. As in
// kube-apiserver, zero and text that is not an unsigned decimal number do not identify a revision. Some
// clients create such objects: kubeadm's CoreDNS service has resourceVersion "0".
func isRevision(resourceVersion string) bool {
	revision, err := strconv.ParseUint(resourceVersion, 10, 64)
	return err == nil && revision != 0
}

// existsError returns the 409 for the creation of an existing object. If that object is being deleted, the
// message states this.
func (s *Store) existsError(ctx context.Context, name types.NamespacedName) error {
	exists := apierrors.NewAlreadyExists(s.Resource, name.Name)
	current, err := s.Storage.Get(ctx, name, storage.ReadOptions{})
	if err != nil {
		return exists
	}
	if obj, err := current.Shared(); err == nil && obj.GetDeletionTimestamp() != nil {
		exists.ErrStatus.Message = fmt.Sprintf("object is being deleted: %s", exists.ErrStatus.Message)
	}
	return exists
}

// beforeCreate sets the system metadata of a new object, and prepares and validates the object by the rules
// of the strategy.
func (s *Store) beforeCreate(ctx context.Context, strategy *Strategy, obj codec.Object) error {
	if strategy.Authorize != nil {
		if err := strategy.Authorize(ctx, obj, nil); err != nil {
			return err
		}
	}
	obj.SetDeletionTimestamp(nil)
	obj.SetDeletionGracePeriodSeconds(nil)
	obj.SetSelfLink("")
	sim := simulation.From(ctx)
	obj.SetCreationTimestamp(now(sim))
	if base := obj.GetGenerateName(); obj.GetName() == "" && base != "" {
		obj.SetName(strategy.generateName(base, sim.Random(s.Resource.Group, s.Resource.Resource, obj.GetNamespace(), base)))
	}
	obj.SetUID(sim.UID(s.Resource.Group, s.Resource.Resource, obj.GetNamespace(), obj.GetName()))
	if restored := request.RestoredFrom(ctx); restored != nil {
		obj.SetUID(restored.UID)
		obj.SetCreationTimestamp(restored.Created)
	}
	if strategy.Generation {
		obj.SetGeneration(1)
	}
	if strategy.PrepareForCreate != nil {
		strategy.PrepareForCreate(ctx, obj)
	}
	errs := strategy.validateMetadata(obj)
	errs = append(errs, strategy.validateFinalizers(obj, nil)...)
	if strategy.Validate != nil {
		errs = append(errs, strategy.Validate(ctx, obj)...)
	}
	if len(errs) > 0 {
		return s.invalid(obj, errs)
	}
	strategy.warnFinalizers(ctx, obj, nil)
	if strategy.WarningsOnCreate != nil {
		warn(ctx, strategy.WarningsOnCreate(ctx, obj))
	}
	return nil
}

func (s *Store) writeOptions(obj codec.Object, dryRun []string) storage.WriteOptions {
	options := storage.WriteOptions{DryRun: isDryRun(dryRun)}
	if s.Strategy.TTL != nil {
		options.TTL = s.Strategy.TTL(obj)
	}
	return options
}

func isDryRun(dryRun []string) bool { return len(dryRun) > 0 }

// now returns the time in whole seconds, the resolution of metav1.Time.
func now(sim *simulation.Simulation) metav1.Time {
	return metav1.NewTime(sim.Now().Truncate(time.Second))
}
