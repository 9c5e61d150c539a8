package namespace

import (
	"context"
	"errors"
	"sync"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/controllers/changes"
	"mainstay.dev/mainstay/internal/loopback"
	"mainstay.dev/mainstay/internal/storage/kv"
)

const (
	// pageSize is how many objects are looked at together, and deleters how many of
	// them are deleted concurrently, so that they share fsyncs.
	pageSize = 512
	deleters = 128
	// concurrentKinds is the number of resources that are emptied concurrently, for namespaces with
	// few objects of each.
	concurrentKinds = 4
	// maxErrors is the maximum number of reported errors of a resource.
	maxErrors = 3
)

// findings are the remaining contents of a namespace after an attempt to delete them.
type findings struct {
	discovery error
	mu        sync.Mutex
	failed    []error
	remaining map[string]int // by "resource.group"
	remote    bool           // some of it is an aggregated server's
	finalizer map[string]int // number of objects with the finalizer
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

// empty deletes the content of a namespace. While there are pods, it deletes no other objects,
// which the pods may need for an orderly termination (KEP-5080).
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
	e := &emptying{found: found, resource: r.Name + "." + r.GroupVersion.Group, namespace: namespace, prefix: r.Key(c.config.Prefix, namespace, "")}
	e.plain = func(entry *kv.Entry) []byte { return c.config.Decrypt.Of(ctx, entry.Key, entry.Value) }
	next, end := e.prefix, kv.PrefixEnd(e.prefix)
	for ctx.Err() == nil {
		page, err := r.Backend.Range(ctx, kv.RangeRequest{Start: next, End: end, Limit: pageSize})
		if err == nil && len(page.Entries) > 0 && e.remove == nil {
			e.remove, err = c.deletion(ctx, r, namespace)
		}
		if err != nil {
			e.fail(err)
			return
		}
		e.removeAll(page.Entries)
		if !page.More || len(page.Entries) == 0 {
			return
		}
		next = page.Entries[len(page.Entries)-1].Key + "\x00"
	}
}

// emptying is the deletion of the objects of one resource in a namespace.
type emptying struct {
	found               *findings
	resource, namespace string
	prefix              string // of their keys
	plain               func(*kv.Entry) []byte
	remove              func(types.NamespacedName) (gone bool, err error)
	errs                int // found.mu guards it
}

func (e *emptying) fail(err error) { e.found.fail(e.resource, &e.errs, err) }

// removeAll deletes objects, and counts the remaining ones.
func (e *emptying) removeAll(entries []kv.Entry) {
	var group errgroup.Group
	group.SetLimit(deleters)
	for i := range entries {
		group.Go(func() error {
			gone, finalizers, err := e.removeOne(&entries[i])
			switch {
			case err != nil:
				e.fail(err)
			case !gone:
				e.found.keep(e.resource, finalizers)
			}
			return nil
		})
	}
	_ = group.Wait()
}

// removeOne deletes an object, unless its deletion is already pending. finalizers are the
// finalizers that it had.
func (e *emptying) removeOne(entry *kv.Entry) (gone bool, finalizers []string, err error) {
	meta, err := changes.MetaOf(e.plain(entry))
	if err != nil {
		return false, nil, err
	}
	if meta.Deleting {
		return false, meta.Finalizers, nil
	}
	gone, err = e.remove(types.NamespacedName{Namespace: e.namespace, Name: entry.Key[len(e.prefix):]})
	if apierrors.IsNotFound(err) {
		return true, nil, nil
	}
	return gone, meta.Finalizers, err
}

// deletion returns a function that deletes single objects of a resource, as part of a collection
// deletion.
func (c *Controller) deletion(ctx context.Context, r changes.Resource, namespace string) (func(types.NamespacedName) (bool, error), error) {
	background := metav1.DeletePropagationBackground
	return loopback.For[codec.Object](c.access, r.GVR()).DeleteSome(ctx, namespace, metav1.DeleteOptions{PropagationPolicy: &background})
}
