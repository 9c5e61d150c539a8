package storagemigration

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/controllers/changes"
	"mainstay.dev/mainstay/internal/loopback"
	"mainstay.dev/mainstay/internal/storage/kv"
)

const (
	// pageSize is how many keys are read at a time.
	pageSize = 128
	// writers is how many objects are written at a time, so that they share fsyncs.
	writers = 32
)

// errBackend: the store could not be read, which is tried again.
var errBackend = errors.New("read the store")

// migrate rewrites all objects of a resource, and then removes the other versions from
// storedVersions of a custom resource.
func (m *Migrator) migrate(ctx context.Context, resource changes.Resource) error {
	if !resource.Custom {
		return m.rewrite(ctx, resource)
	}
	name := types.NamespacedName{Name: resource.GroupResource().String()}
	before, err := m.definitions.Get(ctx, name)
	if err != nil {
		return err
	}
	if err := m.rewrite(ctx, resource); err != nil {
		return err
	}
	return m.forgetVersions(ctx, name, before)
}

// rewrite rewrites all objects of a resource. Objects that are written concurrently are already
// stored in the desired form, so it does not matter whether they are processed.
func (m *Migrator) rewrite(ctx context.Context, resource changes.Resource) error {
	client := loopback.For[codec.Object](m.access, resource.GVR())
	prefix := resource.Key(m.config.Prefix, "", "")
	next, end := prefix, kv.PrefixEnd(prefix)
	for {
		page, err := resource.Backend.Range(ctx, kv.RangeRequest{Start: next, End: end, Limit: pageSize})
		if err != nil {
			return fmt.Errorf("%w: %w", errBackend, err)
		}
		var group errgroup.Group
		group.SetLimit(writers)
		for i := range page.Entries {
			group.Go(func() error { return touch(ctx, client, nameOf(page.Entries[i].Key[len(prefix):])) })
		}
		if err := group.Wait(); err != nil {
			return err
		}
		if !page.More || len(page.Entries) == 0 {
			return nil
		}
		next = page.Entries[len(page.Entries)-1].Key + "\x00"
	}
}

// nameOf returns the name of the object with a key, without the resource's prefix.
func nameOf(key string) types.NamespacedName {
	if namespace, name, ok := strings.Cut(key, "/"); ok {
		return types.NamespacedName{Namespace: namespace, Name: name}
	}
	return types.NamespacedName{Name: key}
}

// touch updates an object without a change, which is written only if the stored form differs from
// the desired one.
func touch(ctx context.Context, client *loopback.Client[codec.Object], name types.NamespacedName) error {
	_, err := client.Update(ctx, name, func(codec.Object) error { return nil })
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) { // another client has written it
		return nil
	}
	return err
}

// forgetVersions removes all versions except the storage version from storedVersions of a
// definition. A definition that has changed since is not modified, because objects may still be
// stored in its previous storage version.
func (m *Migrator) forgetVersions(ctx context.Context, name types.NamespacedName, before *apiextensionsv1.CustomResourceDefinition) error {
	_, err := m.definitions.Subresource("status").Update(ctx, name, func(crd *apiextensionsv1.CustomResourceDefinition) error {
		i := slices.IndexFunc(crd.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool { return v.Storage })
		if i >= 0 && crd.UID == before.UID && crd.Generation == before.Generation {
			crd.Status.StoredVersions = []string{crd.Spec.Versions[i].Name}
		}
		return nil
	})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
