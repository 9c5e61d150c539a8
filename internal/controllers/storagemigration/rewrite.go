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
	// pageSize is the number of keys per read.
	pageSize = 128
	// maxConcurrentWrites is the number of objects that are written concurrently. Concurrent writes share
	// fsyncs.
	maxConcurrentWrites = 32
)

// errBackend marks errors of reading the store. Migrations are retried after such errors.
var errBackend = errors.New("read the store")

// migrate rewrites all objects of a resource. For a custom resource, it then removes all versions except the
// storage version from status.storedVersions.
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
	return m.resetStoredVersions(ctx, name, before)
}

// rewrite rewrites all objects of a resource. It may miss objects that are written concurrently, because they
// are then already stored in the desired form.
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
		group.SetLimit(maxConcurrentWrites)
		for i := range page.Entries {
			group.Go(func() error { return rewriteObject(ctx, client, parseName(page.Entries[i].Key[len(prefix):])) })
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

// parseName returns the object name in a key. The prefix of the resource must have been removed from the key.
func parseName(key string) types.NamespacedName {
	if namespace, name, ok := strings.Cut(key, "/"); ok {
		return types.NamespacedName{Namespace: namespace, Name: name}
	}
	return types.NamespacedName{Name: key}
}

// rewriteObject updates an object without changing it. The object is written only if its stored encoding
// differs from the desired one.
func rewriteObject(ctx context.Context, client *loopback.Client[codec.Object], name types.NamespacedName) error {
	_, err := client.Update(ctx, name, func(codec.Object) error { return nil })
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) { // another client has written it
		return nil
	}
	return err
}

// resetStoredVersions removes all versions except the storage version from status.storedVersions of a
// definition. It does nothing if the definition has changed since before was read, because objects may then be
// stored in the previous storage version.
func (m *Migrator) resetStoredVersions(ctx context.Context, name types.NamespacedName, before *apiextensionsv1.CustomResourceDefinition) error {
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
