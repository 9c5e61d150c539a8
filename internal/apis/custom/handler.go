package custom

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"sync"
	"sync/atomic"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/registry"
	"mainstay.dev/mainstay/internal/rest"
	"mainstay.dev/mainstay/internal/storage"
)

// handler serves one version of a definition. Until open is called, it contains only data from the entry.
type handler struct {
	source     *Source
	derived    *generationState
	creates    *createGate
	name       string // of the definition
	uid        types.UID
	plural     string
	group      schema.GroupResource
	version    entryVersion
	gvk        schema.GroupVersionKind
	namespaced bool
	kind       *codec.Kind
	types      typeConverter
	// finalizing is set for the handler that deletes the objects of a terminating definition. That handler uses
	// no watch cache, and does not wait until the definition is established.
	finalizing bool

	// used is the time of the last lookup in Unix nanoseconds; watches is the number of open
	// watches.
	used, watches atomic.Int64

	mu     sync.Mutex // held while opening
	opened atomic.Pointer[openHandler]
	// compiled is the schema. It is nil before the first object is read or written, because most
	// resources that are listed and watched have no objects.
	compiled atomic.Pointer[compiled]
}

// openHandler is the state derived from a definition without its schemas.
type openHandler struct {
	store  *registry.Store
	status *registry.SubresourceStore // nil without the status subresource
	// table returns the printer columns. It parses them on first use, because most clients do not request tables.
	table      func() *table
	selectable []selectable
	scale      *apiextensionsv1.CustomResourceSubresourceScale // nil without the scale subresource
	// replicasPaths contains the path of the replicas field in each version with the scale subresource, keyed
	// by apiVersion.
	replicasPaths map[string]fieldpath.Path
}

// newVersionResources returns the resources of a version. It does not read the definition.
func newVersionResources(s *Source, e *entry, v *entryVersion) *versionResources {
	h := &handler{
		source: s, derived: e.derived, creates: e.creates, name: e.name, uid: e.uid, plural: e.requested.plural, version: *v, namespaced: e.namespaced,
		group: e.resource(),
		gvk:   e.groupVersion(v.name).WithKind(e.requested.kind),
	}
	h.kind = h.newKind(e)
	h.types.handler = h
	in := &versionResources{handler: h, resources: map[string]*rest.Resource{}}
	for _, r := range e.describe(v) {
		h.bind(r)
		in.resources[r.Subresource] = r
	}
	return in
}

// describe returns the resources of a version for discovery. They can serve requests only after bind was called
// for them.
func (e *entry) describe(v *entryVersion) []*rest.Resource {
	gvk := e.groupVersion(v.name).WithKind(e.requested.kind)
	main := &rest.Resource{
		GroupVersion: gvk.GroupVersion(), Name: e.requested.plural, Singular: e.accepted.singular,
		ShortNames: e.accepted.shortNames, Categories: e.accepted.categories, Namespaced: e.namespaced,
		Version: &codec.Version{GVK: gvk, List: e.listKind(), Untyped: true}, Storage: instances{},
		StorageVersionHash: storageVersionHash(e.groupVersion(e.storageVersion().name).WithKind(e.requested.kind)), Custom: true,
	}
	if e.stored.terminating {
		main.WithoutVerbs = []string{"create", "patch", "update"} // in discovery only, as in kube-apiserver
	}
	if v.deprecated {
		main.Warning = e.deprecation(v)
	}
	resources := []*rest.Resource{main}
	if v.status {
		status := *main
		status.Subresource, status.Storage = "status", statuses{}
		status.ShortNames, status.Categories, status.StorageVersionHash, status.WithoutVerbs = nil, nil, "", nil
		resources = append(resources, &status)
	}
	if v.scale {
		resources = append(resources, &rest.Resource{
			GroupVersion: gvk.GroupVersion(), Name: main.Name, Subresource: "scale", Namespaced: e.namespaced,
			Version: registry.ScaleVersion(), Storage: (*registry.Scale)(nil), Warning: main.Warning, Custom: true,
		})
	}
	return resources
}

// deprecation returns the warning for requests that use a deprecated version.
func (e *entry) deprecation(v *entryVersion) string {
	if v.deprecationNotice != "" {
		return v.deprecationNotice
	}
	notice := fmt.Sprintf("%s/%s %s is deprecated", e.group, v.name, e.requested.kind)
	for i := range e.versions {
		if better := &e.versions[i]; better.served && !better.deprecated {
			// Versions are in order of preference. A version that is less stable than the
			// deprecated one is not recommended.
			if comparePriority(better.name, v.name) > 0 {
				return notice + fmt.Sprintf("; use %s/%s %s", e.group, better.name, e.requested.kind)
			}
			break
		}
	}
	return notice
}

// storageVersionHash returns the hash of a storage version, as in kube-apiserver.
func storageVersionHash(gvk schema.GroupVersionKind) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s/%s/%s", gvk.Group, gvk.Version, gvk.Kind))
	return base64.StdEncoding.EncodeToString(sum[:8])
}

// bind sets the fields of a resource that are needed to serve requests.
func (h *handler) bind(r *rest.Resource) {
	apiVersion := fieldpath.APIVersion(h.gvk.GroupVersion().String())
	switch r.Subresource {
	case "":
		r.Storage, r.Table, r.WithoutVerbs = instances{h}, columns{h}, nil
		if h.version.status {
			r.ResetFields = map[fieldpath.APIVersion]*fieldpath.Set{apiVersion: fieldpath.NewSet(fieldpath.MakePathOrDie("status"))}
		}
	case "status":
		r.Storage, r.Table = statuses{h}, columns{h}
		r.ResetFields = map[fieldpath.APIVersion]*fieldpath.Set{apiVersion: fieldpath.NewSet(
			fieldpath.MakePathOrDie("metadata"), fieldpath.MakePathOrDie("spec"))}
	case "scale":
		kind := &codec.Kind{Hub: registry.ScaleVersion()}
		r.Storage, r.Kind, r.Version = &registry.Scale{Kind: kind, Open: h.scalable}, kind, kind.Hub
		return
	}
	r.Kind, r.Version, r.TypeConverter, r.FieldLabel = h.kind, h.kind.Hub, &h.types, h.fieldLabel
}

// storagePath returns the path of the objects of a resource below the storage prefix.
func storagePath(resource schema.GroupResource) string {
	return resource.Group + "/" + resource.Resource
}

// open returns the state for requests, and computes it from the stored definition on first use. Unless
// h.finalizing is set, it blocks until the definition is established.
func (h *handler) open(ctx context.Context) (*openHandler, error) {
	if o := h.opened.Load(); o != nil {
		return o, nil
	}
	if !h.finalizing {
		if err := h.derived.awaitEstablished(ctx, h.source, h.group); err != nil {
			return nil, err
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if o := h.opened.Load(); o != nil {
		return o, nil
	}
	crd, err := h.source.read(ctx, h.name, "schema")
	if err != nil {
		return nil, err
	}
	v, err := versionOf(crd, h.version.name)
	if err != nil {
		return nil, err
	}
	printed := v.AdditionalPrinterColumns
	o := &openHandler{table: sync.OnceValue(func() *table { return newTable(printed) }), selectable: newSelectable(v), replicasPaths: replicasPaths(crd)}
	if v.Subresources != nil {
		o.scale = v.Subresources.Scale
	}
	objects, err := h.source.config.Storage(storage.Spec{
		Path: storagePath(h.group), Kind: h.kind, Namespaced: h.namespaced, Resource: h.group,
		IndexFields: o.selectableLabels(), Uncached: h.finalizing,
	})
	if err != nil {
		return nil, fmt.Errorf("open the storage of %s: %w", h.group, err)
	}
	if h.source.config.Shared {
		objects = &conditionalCreates{objects, h}
	}
	o.store = &registry.Store{Resource: h.group, Kind: h.kind, Strategy: h.strategy(o), Storage: objects, Deletion: h.source.config.Deletion}
	if h.version.status {
		o.status = &registry.SubresourceStore{Store: o.store, Subresource: "status", Strategy: h.statusStrategy(o)}
	}
	h.opened.Store(o)
	return o, nil
}
