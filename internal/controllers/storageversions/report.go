package storageversions

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"
	internalv1alpha1 "k8s.io/api/apiserverinternal/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/loopback"
	"mainstay.dev/mainstay/internal/rest"
	"mainstay.dev/mainstay/internal/storage"
)

// writers is the number of StorageVersions that are written concurrently, so that the writes of a
// first start share fsyncs.
const writers = 64

// ReporterConfig configures a Reporter. All fields are required.
type ReporterConfig struct {
	// ServerID is the identity of this server.
	ServerID string
	// Builtin are the resources that do not change; Custom returns the others.
	Builtin []rest.StorageVersion
	Custom  func() []rest.StorageVersion
	// Stored are the stored StorageVersions, past the watch cache.
	Stored storage.Interface
	// Access is the server's own, to the control plane.
	Access *loopback.Access
}

// Reporter publishes the storage versions of this server. It is safe for concurrent use.
type Reporter struct {
	config ReporterConfig
	writer writer
	mu     struct {
		sync.RWMutex
		// pending are the built-in resources that have not been reported yet, with the error of the
		// last attempt, or nil before the first one.
		pending map[schema.GroupResource]error
	}
}

// NewReporter returns a Reporter without reported resources.
func NewReporter(config ReporterConfig) *Reporter {
	r := &Reporter{config: config, writer: newWriter(config.Access)}
	r.mu.pending = map[schema.GroupResource]error{}
	for i := range config.Builtin {
		for _, resource := range served(&config.Builtin[i]) {
			r.mu.pending[resource] = nil
		}
	}
	return r
}

// Pending reports whether a resource is still to be reported for the first time, and why
// the last attempt failed. Custom resources never are, as in kube-apiserver, which does not
// report them at all.
func (r *Reporter) Pending(resource schema.GroupResource) (pending bool, last error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	last, pending = r.mu.pending[resource]
	return pending, last
}

// served are the resources by which the objects of one are served.
func served(v *rest.StorageVersion) []schema.GroupResource {
	return append(slices.Clip(v.Aliases), v.GroupResource)
}

// note notes how the report of a resource went that is pending.
func (r *Reporter) note(v *rest.StorageVersion, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, resource := range served(v) {
		if _, pending := r.mu.pending[resource]; !pending {
			continue
		}
		if r.mu.pending[resource] = err; err == nil {
			delete(r.mu.pending, resource)
		}
	}
}

// Report updates the entries of this server. It writes only entries that differ. After an error it
// continues with the other resources, and returns one of the errors.
func (r *Reporter) Report(ctx context.Context) error {
	said, err := r.said(ctx)
	if err != nil {
		for i := range r.config.Builtin {
			r.note(&r.config.Builtin[i], err)
		}
		return err
	}
	var group errgroup.Group
	group.SetLimit(writers)
	for name, v := range r.wanted() {
		was, there := said[name]
		delete(said, name)
		is := r.entry(v)
		if there && equal(&was, &is) {
			r.note(v, nil)
			continue
		}
		group.Go(func() error {
			err := r.write(ctx, name, is)
			r.note(v, err)
			return err
		})
	}
	for name := range said { // entries of resources that are no longer stored
		group.Go(func() error { return r.writer.drop(ctx, name, r.isThis) })
	}
	return group.Wait()
}

// said returns the entries of this server by the names of the StorageVersions.
func (r *Reporter) said(ctx context.Context) (map[string]internalv1alpha1.ServerStorageVersion, error) {
	list, err := r.config.Stored.List(ctx, "", rest.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("read the storage versions: %w", err)
	}
	said := map[string]internalv1alpha1.ServerStorageVersion{}
	for record, err := range list.Items {
		if err != nil {
			return nil, fmt.Errorf("read the storage versions: %w", err)
		}
		v, err := codec.SharedAs[*internalv1alpha1.StorageVersion](record)
		if err != nil {
			return nil, err
		}
		if at := slices.IndexFunc(v.Status.StorageVersions, r.isEntry); at >= 0 {
			said[v.Name] = v.Status.StorageVersions[at]
		}
	}
	return said, nil
}

// wanted returns the desired entries by the names of the StorageVersions. Definitions of built-in
// resources are ignored.
func (r *Reporter) wanted() map[string]*rest.StorageVersion {
	wanted := map[string]*rest.StorageVersion{}
	for _, list := range [][]rest.StorageVersion{r.config.Custom(), r.config.Builtin} {
		for i := range list {
			wanted[nameOf(list[i].GroupResource)] = &list[i]
		}
	}
	return wanted
}

// nameOf is the name of the StorageVersion of a resource. The core group, which is no
// subdomain, has a name there.
func nameOf(resource schema.GroupResource) string {
	if resource.Group == "" {
		return "core." + resource.Resource
	}
	return resource.Group + "." + resource.Resource
}

func (r *Reporter) entry(v *rest.StorageVersion) internalv1alpha1.ServerStorageVersion {
	return internalv1alpha1.ServerStorageVersion{
		APIServerID: r.config.ServerID, EncodingVersion: v.Encoding, DecodableVersions: v.Decodable, ServedVersions: v.Served,
	}
}

func equal(a, b *internalv1alpha1.ServerStorageVersion) bool {
	return a.EncodingVersion == b.EncodingVersion && slices.Equal(a.DecodableVersions, b.DecodableVersions) && slices.Equal(a.ServedVersions, b.ServedVersions)
}

func (r *Reporter) isThis(serverID string) bool { return serverID == r.config.ServerID }

func (r *Reporter) isEntry(s internalv1alpha1.ServerStorageVersion) bool {
	return r.isThis(s.APIServerID)
}

// write writes an entry to a StorageVersion, and creates the StorageVersion if it does not exist.
// Creation takes two writes, because it ignores the status.
func (r *Reporter) write(ctx context.Context, name string, entry internalv1alpha1.ServerStorageVersion) error {
	put := func(servers []internalv1alpha1.ServerStorageVersion) []internalv1alpha1.ServerStorageVersion {
		if at := slices.IndexFunc(servers, r.isEntry); at >= 0 {
			servers[at] = entry
			return servers
		}
		return append(servers, entry)
	}
	_, err := r.writer.updateServers(ctx, name, put)
	if !apierrors.IsNotFound(err) {
		return err
	}
	_, err = r.writer.versions.Create(ctx, &internalv1alpha1.StorageVersion{ObjectMeta: metav1.ObjectMeta{Name: name}})
	if err != nil && !apierrors.IsAlreadyExists(err) { // another server creates it too
		return fmt.Errorf("create the storage version %s: %w", name, err)
	}
	_, err = r.writer.updateServers(ctx, name, put)
	return err
}
