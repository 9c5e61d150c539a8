package bootstrap

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/loopback"
	"mainstay.dev/mainstay/internal/rest"
	"mainstay.dev/mainstay/internal/storage"
)

// serverManager is the field manager of sets that do not specify another one.
const serverManager = "kube-apiserver"

// writers is the maximum number of objects that are read and written concurrently. Concurrent writes share
// fsyncs, which speeds up the first start.
const writers = 256

// set contains declared objects of one resource.
type set struct {
	resource schema.GroupVersionResource
	// manager is the field manager; "" selects serverManager.
	manager string
	objects []codec.Object
	// revise updates an existing object and reports whether it changed it; nil does not change
	// existing objects.
	revise func(existing, wanted codec.Object) bool
	// replace reports whether an existing object must be deleted and created again; nil replaces no
	// objects.
	replace func(existing, wanted codec.Object) bool
	// retired reports whether an existing object that is not in objects must be deleted because an older
	// version created it; nil deletes no objects.
	retired func(existing codec.Object) bool
}

// target provides access to the objects of a set. stored is used for reads and has no cache, because loading a
// cache for a single read would be expensive. client is used for writes.
type target struct {
	stored storage.Interface
	client *loopback.Client[codec.Object]
}

func (b *Bootstrap) target(s *set) (*target, error) {
	stored, err := b.config.Stored(s.resource.GroupResource())
	if err != nil {
		return nil, err
	}
	return &target{stored, loopback.For[codec.Object](b.config.Access.As(nil, s.fieldManager()), s.resource)}, nil
}

// ensure creates and updates the objects of sets concurrently. It writes only objects that differ. It continues
// after an error and returns the first error.
func (b *Bootstrap) ensure(ctx context.Context, sets ...set) error {
	var group errgroup.Group
	group.SetLimit(writers)
	for _, s := range sets {
		target, err := b.target(&s)
		if err != nil {
			group.Go(func() error { return err })
			continue
		}
		if s.retired != nil {
			group.Go(func() error { return retire(ctx, target, &s) })
		}
		for _, wanted := range s.objects {
			group.Go(func() error {
				err := b.ensureOne(ctx, target, &s, wanted)
				// These errors occur if another server creates the same objects at the same time.
				if err == nil || apierrors.IsAlreadyExists(err) || apierrors.IsConflict(err) {
					return nil
				}
				return fmt.Errorf("%s %s: %w", s.resource.Resource, nameOf(wanted), err)
			})
		}
	}
	return group.Wait()
}

func (b *Bootstrap) ensureOne(ctx context.Context, target *target, s *set, wanted codec.Object) error {
	record, err := target.stored.Get(ctx, nameOf(wanted), storage.ReadOptions{})
	if errors.Is(err, storage.ErrNotFound) {
		return create(ctx, target, wanted)
	}
	if err != nil || s.revise == nil {
		return err
	}
	existing, err := record.Object()
	if err != nil {
		return err
	}
	if s.replace != nil && s.replace(existing, wanted) {
		uid := string(existing.GetUID())
		if err := target.client.Delete(ctx, nameOf(wanted), *metav1.NewPreconditionDeleteOptions(uid)); err != nil && !apierrors.IsNotFound(err) {
			return err
		}
		return create(ctx, target, wanted)
	}
	if !s.revise(existing, wanted) {
		return nil
	}
	_, err = target.client.Update(ctx, nameOf(wanted), func(current codec.Object) error {
		s.revise(current, wanted)
		return nil
	})
	return err
}

// retire deletes the objects for which s.retired returns true.
func retire(ctx context.Context, target *target, s *set) error {
	list, err := target.stored.List(ctx, "", rest.ListOptions{})
	if err != nil {
		return err
	}
	for record, err := range list.Items {
		if err != nil {
			return err
		}
		if s.declares(record.Name()) {
			continue // the object need not be decoded
		}
		existing, err := record.Shared()
		if err != nil || !s.retired(existing) {
			continue // this package did not write an object that cannot be decoded
		}
		uid, version := existing.GetUID(), strconv.FormatInt(record.Revision(), 10)
		options := metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid, ResourceVersion: &version}}
		if err := target.client.Delete(ctx, record.Name(), options); err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			return fmt.Errorf("delete %s %s, which is not declared any more: %w", s.resource.Resource, record.Name(), err)
		}
	}
	return nil
}

func (s *set) declares(name types.NamespacedName) bool {
	return slices.ContainsFunc(s.objects, func(o codec.Object) bool { return nameOf(o) == name })
}

// create writes a copy of wanted, so that the caller can write wanted again.
func create(ctx context.Context, target *target, wanted codec.Object) error {
	_, err := target.client.Create(ctx, wanted.DeepCopyObject().(codec.Object))
	return err
}

func (s *set) fieldManager() string {
	if s.manager == "" {
		return serverManager
	}
	return s.manager
}

func nameOf(obj codec.Object) types.NamespacedName {
	return types.NamespacedName{Namespace: obj.GetNamespace(), Name: obj.GetName()}
}
