package fleet

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"mainstay.dev/mainstay/internal/apis/controlplanes"
	"mainstay.dev/mainstay/internal/rest"
	"mainstay.dev/mainstay/internal/storage/kv"
)

// deletionOps is the maximum number of keys that one commit deletes. etcd allows 128 operations.
const deletionOps = 100

// deletionCommits is the number of concurrent commits of a deletion. Stores use one fsync for several
// concurrent commits.
const deletionCommits = 16

// deleteKeys deletes all storage keys of a control plane, and releases the state of its source. After an error
// or a crash, it can be called again.
func (f *Fleet) deleteKeys(ctx context.Context, uid types.UID) error {
	err := f.deletePrefix(ctx, f.folder(uid), deletionCommits, func(ctx context.Context, ops ...kv.Op) error {
		_, err := f.config.Env.Storage.Backend.Commit(ctx, ops...)
		return err
	})
	if err != nil {
		return fmt.Errorf("delete the objects of the control plane: %w", err)
	}
	return f.unpin(ctx, uid)
}

// deletePrefix deletes all keys with a prefix, in commits of at most deletionOps operations. Up to concurrent
// calls of commit run at the same time. deletePrefix repeats the deletion until it finds no keys, because
// another server might still write keys.
func (f *Fleet) deletePrefix(ctx context.Context, prefix string, concurrent int, commit func(context.Context, ...kv.Op) error) error {
	for {
		deleted, err := f.deleteRange(ctx, prefix, concurrent, commit)
		if err != nil || deleted == 0 {
			return err
		}
	}
}

// deleteRange deletes the existing keys with a prefix, in ascending order, and returns their number. Each page
// begins after the previous one instead of at the prefix, because a store needs time to skip deleted keys.
func (f *Fleet) deleteRange(ctx context.Context, prefix string, concurrent int, commit func(context.Context, ...kv.Op) error) (deleted int, err error) {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(concurrent)
	for next := prefix; ; {
		page, err := f.config.Env.Storage.Backend.Range(ctx, kv.RangeRequest{Start: next, End: kv.PrefixEnd(prefix), Limit: deletionOps})
		if err != nil || len(page.Entries) == 0 {
			return deleted, cmp.Or(group.Wait(), err)
		}
		ops := make([]kv.Op, len(page.Entries))
		for i := range page.Entries {
			ops[i] = kv.Op{Key: page.Entries[i].Key, Kind: kv.OpDelete, Expect: kv.AnyRevision}
		}
		group.Go(func() error { return commit(ctx, ops...) })
		deleted += len(ops)
		next = ops[len(ops)-1].Key + "\x00"
	}
}

// deleteSecret deletes the Secret of a control plane. It does not rely on the garbage collector, which might
// not be running.
func (f *Fleet) deleteSecret(ctx context.Context, object *controlplanes.ControlPlane) error {
	name := secretOf(object.Name)
	secret, err := f.secrets.Get(ctx, name)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if owner, _ := ownerOf(secret); owner != object.UID {
		return nil
	}
	err = f.secrets.Delete(ctx, name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &secret.UID}})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}

// deleteOrphans deletes the storage keys of control planes whose objects no longer exist. It reads the keys
// before the objects, so that it does not delete the keys of a control plane that another server creates at the
// same time.
func (f *Fleet) deleteOrphans(ctx context.Context) error {
	stored, err := f.storedUIDs(ctx)
	if err != nil || len(stored) == 0 {
		return err
	}
	exists := map[types.UID]bool{}
	for object, err := range f.objects.List(ctx, "", rest.ListOptions{}) {
		if err != nil {
			return err
		}
		exists[object.GetUID()] = true
	}
	for uid := range stored {
		if exists[uid] {
			continue
		}
		f.logger.Info("deleting the objects of a control plane that no longer exists", "uid", uid)
		if err := f.deleteKeys(ctx, uid); err != nil {
			return err
		}
	}
	return nil
}

// storedUIDs returns the UIDs of the control planes that have keys or pins in the store.
func (f *Fleet) storedUIDs(ctx context.Context) (sets.Set[types.UID], error) {
	all := f.config.Prefix
	uids := sets.Set[types.UID]{}
	if pinner, ok := f.pinner(); ok {
		pins, err := pinner.Pins(ctx)
		if err != nil {
			return nil, fmt.Errorf("find the forks in the store: %w", err)
		}
		for _, pin := range pins {
			uids.Insert(types.UID(pin.Owner))
		}
	}
	for next := all; ; {
		page, err := f.config.Env.Storage.Backend.Range(ctx, kv.RangeRequest{Start: next, End: kv.PrefixEnd(all), Limit: 1})
		if err != nil {
			return nil, fmt.Errorf("find the control planes in the store: %w", err)
		}
		if len(page.Entries) == 0 {
			return uids, nil
		}
		uid, _, _ := strings.Cut(strings.TrimPrefix(page.Entries[0].Key, all), "/")
		if uid != controlplanes.TemplatesKey {
			uids.Insert(types.UID(uid))
		}
		next = kv.PrefixEnd(all + uid + "/")
	}
}
