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

// maxConcurrentWrites is the number of StorageVersions that are written concurrently. Concurrent writes share
// fsyncs, which makes the first start of a server faster.
const maxConcurrentWrites = 64

// ReporterConfig configures a Reporter. All fields are required.
type ReporterConfig struct {
	// ServerID is the identity of this server.
	ServerID string
	// Builtin contains the storage versions of built-in resources. Custom returns the storage versions of
	// custom resources.
	Builtin []rest.StorageVersion
	Custom  func() []rest.StorageVersion
	// Storage reads StorageVersions without a watch cache.
	Storage storage.Interface
	// Access writes StorageVersions as the user of the server.
	Access *loopback.Access
}

// Reporter publishes the storage versions of this server. It is safe for concurrent use.
type Reporter struct {
	config ReporterConfig
	writer writer
	mu     struct {
		sync.RWMutex
		// pending contains the built-in resources that have not been reported yet. The value is the error of
		// the last attempt, or nil before the first attempt.
		pending map[schema.GroupResource]error
	}
}

// NewReporter returns a Reporter that has not reported any resource yet.
func NewReporter(config ReporterConfig) *Reporter {
	r := &Reporter{config: config, writer: newWriter(config.Access)}
	r.mu.pending = map[schema.GroupResource]error{}
	for i := range config.Builtin {
		for _, resource := range servedResources(&config.Builtin[i]) {
			r.mu.pending[resource] = nil
		}
	}
	return r
}

// Pending reports whether a built-in resource has not been reported yet. last is the error of the last attempt,
// or nil if there was no attempt. For custom resources, Pending returns false, because kube-apiserver does not
// report them.
func (r *Reporter) Pending(resource schema.GroupResource) (pending bool, last error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	last, pending = r.mu.pending[resource]
	return pending, last
}

// servedResources returns all resources that serve the objects of a storage version.
func servedResources(v *rest.StorageVersion) []schema.GroupResource {
	return append(slices.Clip(v.Aliases), v.GroupResource)
}

// recordResult records the result of reporting a storage version. It ignores resources that are not pending.
func (r *Reporter) recordResult(v *rest.StorageVersion, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, resource := range servedResources(v) {
		if _, pending := r.mu.pending[resource]; !pending {
			continue
		}
		if r.mu.pending[resource] = err; err == nil {
			delete(r.mu.pending, resource)
		}
	}
}

// Report updates the entries of this server, and removes the entries of resources that the server no longer
// stores. It writes only entries that differ, and blocks until they are stored. If reporting a resource fails,
// it continues with the other resources, and returns one of the errors.
func (r *Reporter) Report(ctx context.Context) error {
	stored, err := r.storedEntries(ctx)
	if err != nil {
		for i := range r.config.Builtin {
			r.recordResult(&r.config.Builtin[i], err)
		}
		return err
	}
	var group errgroup.Group
	group.SetLimit(maxConcurrentWrites)
	for name, v := range r.desiredVersions() {
		was, exists := stored[name]
		delete(stored, name)
		is := r.newEntry(v)
		if exists && equalEntries(&was, &is) {
			r.recordResult(v, nil)
			continue
		}
		group.Go(func() error {
			err := r.write(ctx, name, is)
			r.recordResult(v, err)
			return err
		})
	}
	for name := range stored { // entries of resources that are no longer stored
		group.Go(func() error { return r.writer.removeServers(ctx, name, r.isOwnID) })
	}
	return group.Wait()
}

// storedEntries returns the stored entries of this server, keyed by the name of the StorageVersion.
func (r *Reporter) storedEntries(ctx context.Context) (map[string]internalv1alpha1.ServerStorageVersion, error) {
	list, err := r.config.Storage.List(ctx, "", rest.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("read the storage versions: %w", err)
	}
	stored := map[string]internalv1alpha1.ServerStorageVersion{}
	for record, err := range list.Items {
		if err != nil {
			return nil, fmt.Errorf("read the storage versions: %w", err)
		}
		v, err := codec.SharedAs[*internalv1alpha1.StorageVersion](record)
		if err != nil {
			return nil, err
		}
		if at := slices.IndexFunc(v.Status.StorageVersions, r.isOwnEntry); at >= 0 {
			stored[v.Name] = v.Status.StorageVersions[at]
		}
	}
	return stored, nil
}

// desiredVersions returns the storage versions to report, keyed by the name of the StorageVersion. If a
// built-in and a custom resource have the same name, the built-in resource takes precedence.
func (r *Reporter) desiredVersions() map[string]*rest.StorageVersion {
	desired := map[string]*rest.StorageVersion{}
	for _, list := range [][]rest.StorageVersion{r.config.Custom(), r.config.Builtin} {
		for i := range list {
			desired[nameOf(list[i].GroupResource)] = &list[i]
		}
	}
	return desired
}

// nameOf returns the name of the StorageVersion for a resource. In the name, the core group is called "core".
func nameOf(resource schema.GroupResource) string {
	if resource.Group == "" {
		return "core." + resource.Resource
	}
	return resource.Group + "." + resource.Resource
}

func (r *Reporter) newEntry(v *rest.StorageVersion) internalv1alpha1.ServerStorageVersion {
	return internalv1alpha1.ServerStorageVersion{
		APIServerID: r.config.ServerID, EncodingVersion: v.Encoding, DecodableVersions: v.Decodable, ServedVersions: v.Served,
	}
}

func equalEntries(a, b *internalv1alpha1.ServerStorageVersion) bool {
	return a.EncodingVersion == b.EncodingVersion && slices.Equal(a.DecodableVersions, b.DecodableVersions) && slices.Equal(a.ServedVersions, b.ServedVersions)
}

func (r *Reporter) isOwnID(serverID string) bool { return serverID == r.config.ServerID }

func (r *Reporter) isOwnEntry(s internalv1alpha1.ServerStorageVersion) bool {
	return r.isOwnID(s.APIServerID)
}

// write writes an entry to a StorageVersion. If the StorageVersion does not exist, write creates it; this
// requires two writes, because a create ignores the status.
func (r *Reporter) write(ctx context.Context, name string, entry internalv1alpha1.ServerStorageVersion) error {
	put := func(servers []internalv1alpha1.ServerStorageVersion) []internalv1alpha1.ServerStorageVersion {
		if at := slices.IndexFunc(servers, r.isOwnEntry); at >= 0 {
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
