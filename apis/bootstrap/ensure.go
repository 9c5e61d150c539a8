package bootstrap

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/codec"
	"mainstay.dev/mainstay/rest"
	"mainstay.dev/mainstay/storage"
)

// serverManager is the default field manager of a set.
const serverManager = "kube-apiserver"

// writers is how many objects of a set are read and written concurrently, so that those
// of a first start share fsyncs.
const writers = 256

// set is declared objects of one resource.
type set struct {
	resource schema.GroupVersionResource
	// manager is the field manager; "": serverManager.
	manager string
	objects []codec.Object
	// revise brings an existing object up to date and reports whether it changed
	// it. nil leaves alone whatever is there.
	revise func(existing, wanted codec.Object) bool
	// replace reports whether an existing object must be deleted and created again;
	// nil: never.
	replace func(existing, wanted codec.Object) bool
	// allocate fills in what no manager owns, as it comes from the server; nil:
	// nothing.
	allocate func(obj codec.Object)
}

// store is the REST storage of a resource, and what it stores, read past its
// cache: objects are looked at once, and a cache would be loaded for that.
type store struct {
	resource *rest.Resource
	stored   storage.Interface
	rest.Creater
	rest.Updater
	rest.GracefulDeleter
}

func (b *Bootstrap) store(gvr schema.GroupVersionResource) (*store, error) {
	resource := b.config.Find(gvr.GroupVersion(), gvr.Resource, "")
	if resource == nil {
		return nil, fmt.Errorf("%s are not served", gvr.Resource)
	}
	stored, err := b.config.Stored(gvr.GroupResource())
	if err != nil {
		return nil, err
	}
	s := &store{resource: resource, stored: stored}
	var creates, updates, deletes bool
	s.Creater, creates = resource.Storage.(rest.Creater)
	s.Updater, updates = resource.Storage.(rest.Updater)
	s.GracefulDeleter, deletes = resource.Storage.(rest.GracefulDeleter)
	if !creates || !updates || !deletes {
		return nil, fmt.Errorf("%s cannot be written", gvr.Resource)
	}
	return s, nil
}

// ensure creates and updates the objects of sets, concurrently. It writes only objects
// that differ. It returns the error of one object, after trying all.
func (b *Bootstrap) ensure(ctx context.Context, sets ...set) error {
	var group errgroup.Group
	group.SetLimit(writers)
	for _, s := range sets {
		target, err := b.store(s.resource)
		if err != nil {
			return err
		}
		for _, wanted := range s.objects {
			group.Go(func() error {
				err := b.ensureOne(ctx, target, &s, wanted)
				// Another server that starts at the same time creates the same.
				if err == nil || apierrors.IsAlreadyExists(err) || apierrors.IsConflict(err) {
					return nil
				}
				return fmt.Errorf("%s %s: %w", s.resource.Resource, nameOf(wanted), err)
			})
		}
	}
	return group.Wait()
}

func (b *Bootstrap) ensureOne(ctx context.Context, target *store, s *set, wanted codec.Object) error {
	record, err := target.stored.Get(ctx, nameOf(wanted), storage.ReadOptions{})
	if errors.Is(err, storage.ErrNotFound) {
		return b.create(ctx, target, s, wanted)
	}
	if err != nil || s.revise == nil {
		return err
	}
	existing, err := record.Object()
	if err != nil {
		return err
	}
	if s.replace != nil && s.replace(existing, wanted) {
		uid := existing.GetUID()
		if _, _, err := target.Delete(ctx, nameOf(wanted), nil, *metav1.NewPreconditionDeleteOptions(string(uid))); err != nil && !apierrors.IsNotFound(err) {
			return err
		}
		return b.create(ctx, target, s, wanted)
	}
	if !s.revise(existing, wanted) {
		return nil
	}
	_, _, err = target.Update(ctx, nameOf(wanted), func(_ context.Context, current codec.Object) (codec.Object, error) {
		revised := current.DeepCopyObject().(codec.Object)
		if !s.revise(revised, wanted) {
			return revised, nil
		}
		return b.config.Account(target.resource, current.DeepCopyObject().(codec.Object), revised, s.fieldManager())
	}, rest.UpdateOptions{})
	return err
}

// create stores a copy of wanted, which may be needed again.
func (b *Bootstrap) create(ctx context.Context, target *store, s *set, wanted codec.Object) error {
	obj, err := b.config.Account(target.resource, target.resource.Version.New(), wanted.DeepCopyObject().(codec.Object), s.fieldManager())
	if err != nil {
		return err
	}
	if s.allocate != nil {
		s.allocate(obj)
	}
	_, err = target.Create(ctx, obj, nil, metav1.CreateOptions{})
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
