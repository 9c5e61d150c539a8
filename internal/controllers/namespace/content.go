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
	// pageSize is the number of objects per read. maxConcurrentDeletes is the number of objects in a page that
	// are deleted concurrently; concurrent writes share fsyncs.
	pageSize             = 512
	maxConcurrentDeletes = 128
	// maxConcurrentResources is the number of resources whose objects are deleted concurrently. This saves time
	// in namespaces that contain few objects of each of many resources.
	maxConcurrentResources = 4
	// maxErrors is the maximum number of errors that are reported for each resource.
	maxErrors = 3
)

// deletionResult is the result of an attempt to delete the content of a namespace.
type deletionResult struct {
	discovery  error
	mu         sync.Mutex
	failed     []error
	remaining  map[string]int // by "resource.group"
	remote     bool           // aggregated servers have some of the remaining objects
	finalizers map[string]int // number of objects with the finalizer
}

func (f *deletionResult) hasRemaining() bool { return len(f.remaining) > 0 }

func (f *deletionResult) err() error {
	return errors.Join(append(f.failed[:len(f.failed):len(f.failed)], f.discovery)...)
}

func (f *deletionResult) addRemaining(resource string, finalizers []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.remaining[resource]++
	for _, finalizer := range finalizers {
		f.finalizers[finalizer]++
	}
}

func (f *deletionResult) addFailure(resource string, errs *int, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.remaining[resource]++
	if *errs++; *errs <= maxErrors {
		f.failed = append(f.failed, err)
	}
}

// deleteContent deletes the content of a namespace. While the namespace contains pods, no other objects are
// deleted, because the pods may need them to terminate properly (KEP-5080).
func (c *Controller) deleteContent(ctx context.Context, namespace string) *deletionResult {
	found := &deletionResult{remaining: map[string]int{}, finalizers: map[string]int{}}
	resources := c.config.Resources()
	for _, r := range resources {
		if r.Path == "pods" {
			c.deleteResource(ctx, r, namespace, found)
		}
	}
	if found.hasRemaining() || len(found.failed) > 0 {
		return found
	}
	var group errgroup.Group
	group.SetLimit(maxConcurrentResources)
	for _, r := range resources {
		if r.Path != "pods" && ctx.Err() == nil {
			group.Go(func() error { c.deleteResource(ctx, r, namespace, found); return nil })
		}
	}
	_ = group.Wait()
	remote := c.config.DeleteRemote(ctx, c.access.User, namespace)
	found.discovery, found.remote = remote.Discovery, len(remote.Remaining) > 0
	found.failed = append(found.failed, remote.Contents...)
	for resource, n := range remote.Remaining {
		found.remaining[resource] += n
	}
	return found
}

// deleteResource deletes the objects of a resource in the namespace. It adds the objects that remain to found.
func (c *Controller) deleteResource(ctx context.Context, r changes.Resource, namespace string, found *deletionResult) {
	e := &resourceDeletion{result: found, resource: r.Name + "." + r.GroupVersion.Group, namespace: namespace, prefix: r.Key(c.config.Prefix, namespace, "")}
	e.decrypt = func(entry *kv.Entry) []byte { return c.config.Decrypt.Value(ctx, entry.Key, entry.Value) }
	next, end := e.prefix, kv.PrefixEnd(e.prefix)
	for ctx.Err() == nil {
		page, err := r.Backend.Range(ctx, kv.RangeRequest{Start: next, End: end, Limit: pageSize})
		if err == nil && len(page.Entries) > 0 && e.deleteObject == nil {
			e.deleteObject, err = c.newDeleter(ctx, r, namespace)
		}
		if err != nil {
			e.fail(err)
			return
		}
		e.deleteEntries(page.Entries)
		if !page.More || len(page.Entries) == 0 {
			return
		}
		next = page.Entries[len(page.Entries)-1].Key + "\x00"
	}
}

// resourceDeletion is the deletion of the objects of one resource in a namespace.
type resourceDeletion struct {
	result              *deletionResult
	resource, namespace string
	prefix              string // of the keys of the objects
	decrypt             func(*kv.Entry) []byte
	deleteObject        func(types.NamespacedName) (deleted bool, err error)
	errs                int // guarded by result.mu
}

func (e *resourceDeletion) fail(err error) { e.result.addFailure(e.resource, &e.errs, err) }

// deleteEntries deletes objects concurrently, and counts the remaining objects.
func (e *resourceDeletion) deleteEntries(entries []kv.Entry) {
	var group errgroup.Group
	group.SetLimit(maxConcurrentDeletes)
	for i := range entries {
		group.Go(func() error {
			deleted, finalizers, err := e.deleteEntry(&entries[i])
			switch {
			case err != nil:
				e.fail(err)
			case !deleted:
				e.result.addRemaining(e.resource, finalizers)
			}
			return nil
		})
	}
	_ = group.Wait()
}

// deleteEntry deletes an object, unless it is already being deleted. deleted reports whether the object no
// longer exists. finalizers are the finalizers of an object that remains.
func (e *resourceDeletion) deleteEntry(entry *kv.Entry) (deleted bool, finalizers []string, err error) {
	meta, err := changes.ParseMeta(e.decrypt(entry))
	if err != nil {
		return false, nil, err
	}
	if meta.Deleting {
		return false, meta.Finalizers, nil
	}
	deleted, err = e.deleteObject(types.NamespacedName{Namespace: e.namespace, Name: entry.Key[len(e.prefix):]})
	if apierrors.IsNotFound(err) {
		return true, nil, nil
	}
	return deleted, meta.Finalizers, err
}

// newDeleter returns a function that deletes individual objects of a resource as part of one collection
// deletion. The function is safe for concurrent use.
func (c *Controller) newDeleter(ctx context.Context, r changes.Resource, namespace string) (func(types.NamespacedName) (bool, error), error) {
	background := metav1.DeletePropagationBackground
	return loopback.For[codec.Object](c.access, r.GVR()).NewDeleter(ctx, namespace, metav1.DeleteOptions{PropagationPolicy: &background})
}
