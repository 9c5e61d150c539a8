package namespace

import (
	"context"
	"errors"
	"sync"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/codec"
	"mainstay.dev/mainstay/controllers/changes"
	"mainstay.dev/mainstay/local"
	"mainstay.dev/mainstay/storage/kv"
)

const (
	// pageSize is how many objects are looked at together, and deleters how many of
	// them are deleted concurrently, so that they share fsyncs.
	pageSize = 512
	deleters = 128
	// concurrentKinds is how many resources are emptied concurrently, for those that
	// have few objects each.
	concurrentKinds = 4
	// maxErrors is how many errors of one resource are told of.
	maxErrors = 3
)

// findings are what is in a namespace after an attempt to delete everything.
type findings struct {
	discovery error
	mu        sync.Mutex
	failed    []error
	remaining map[string]int // by "resource.group"
	remote    bool           // some of it is an aggregated server's
	finalizer map[string]int // objects that it holds
}

func (f *findings) remains() bool { return len(f.remaining) > 0 }

func (f *findings) err() error {
	return errors.Join(append(f.failed[:len(f.failed):len(f.failed)], f.discovery)...)
}

func (f *findings) keep(resource string, finalizers []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.remaining[resource]++
	for _, finalizer := range finalizers {
		f.finalizer[finalizer]++
	}
}

func (f *findings) fail(resource string, errs *int, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.remaining[resource]++
	if *errs++; *errs <= maxErrors {
		f.failed = append(f.failed, err)
	}
}

// empty deletes what is in a namespace. While there are pods, nothing else goes, which
// they may need to end in good order (KEP-5080).
func (c *Controller) empty(ctx context.Context, namespace string) *findings {
	found := &findings{remaining: map[string]int{}, finalizer: map[string]int{}}
	resources := c.config.Resources()
	for _, r := range resources {
		if r.Path == "pods" {
			c.emptyOf(ctx, r, namespace, found)
		}
	}
	if found.remains() || len(found.failed) > 0 {
		return found
	}
	var group errgroup.Group
	group.SetLimit(concurrentKinds)
	for _, r := range resources {
		if r.Path != "pods" && ctx.Err() == nil {
			group.Go(func() error { c.emptyOf(ctx, r, namespace, found); return nil })
		}
	}
	_ = group.Wait()
	remote := c.config.Remote(ctx, c.access.User, namespace)
	found.discovery, found.remote = remote.Discovery, len(remote.Remaining) > 0
	found.failed = append(found.failed, remote.Contents...)
	for resource, n := range remote.Remaining {
		found.remaining[resource] += n
	}
	return found
}

// emptyOf deletes the objects of a resource.
func (c *Controller) emptyOf(ctx context.Context, r changes.Resource, namespace string, found *findings) {
	name := r.Name + "." + r.GroupVersion.Group
	errs := 0
	next := r.Key(c.config.Prefix, namespace, "")
	trim, end := len(next), kv.PrefixEnd(next)
	var delete func(types.NamespacedName) (bool, error)
	for ctx.Err() == nil {
		page, err := c.config.Backend.Range(ctx, kv.RangeRequest{Start: next, End: end, Limit: pageSize})
		if err != nil {
			found.fail(name, &errs, err)
			return
		}
		if len(page.Entries) == 0 {
			return
		}
		if delete == nil {
			if delete, err = c.deletion(ctx, r, namespace); err != nil {
				found.fail(name, &errs, err)
				return
			}
		}
		var group errgroup.Group
		group.SetLimit(deleters)
		for i := range page.Entries {
			e := &page.Entries[i]
			group.Go(func() error {
				gone, finalizers, err := deleteOne(types.NamespacedName{Namespace: namespace, Name: e.Key[trim:]}, e.Value, delete)
				switch {
				case err != nil:
					found.fail(name, &errs, err)
				case !gone:
					found.keep(name, finalizers)
				}
				return nil
			})
		}
		_ = group.Wait()
		if !page.More {
			return
		}
		next = page.Entries[len(page.Entries)-1].Key + "\x00"
	}
}

// deletion returns what deletes single objects of a resource, as a request to delete
// the collection does.
func (c *Controller) deletion(ctx context.Context, r changes.Resource, namespace string) (func(types.NamespacedName) (bool, error), error) {
	background := metav1.DeletePropagationBackground
	return local.For[codec.Object](c.access, r.GVR()).DeleteSome(ctx, namespace, metav1.DeleteOptions{PropagationPolicy: &background})
}

// deleteOne deletes an object, unless that has been asked for already. The finalizers
// are those that it had.
func deleteOne(name types.NamespacedName, value []byte, delete func(types.NamespacedName) (bool, error)) (gone bool, finalizers []string, err error) {
	meta, err := changes.MetaOf(value)
	if err != nil {
		return false, nil, err
	}
	if meta.Deleting {
		return false, meta.Finalizers, nil
	}
	gone, err = delete(name)
	if apierrors.IsNotFound(err) {
		return true, nil, nil
	}
	return gone, meta.Finalizers, err
}
