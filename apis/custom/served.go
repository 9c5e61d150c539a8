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
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"mainstay.dev/mainstay/codec"
	"mainstay.dev/mainstay/registry"
	"mainstay.dev/mainstay/rest"
)

// served is one version of a definition, as it is served. Until it is opened
// it holds nothing but names.
type served struct {
	source  *Source
	family  *family
	fence   *fence
	name    string // of the definition
	plural  string
	group   schema.GroupResource
	version entryVersion
	gvk     schema.GroupVersionKind
	scoped  bool // in namespaces
	kind    *codec.Kind
	types   typeConverter
	passing bool // as in StorageSpec

	// used is when it was last looked up, in Unix nanoseconds; watches are those
	// open.
	used, watches atomic.Int64

	mu     sync.Mutex // held while opening
	opened atomic.Pointer[opened]
	// compiled is the schema, nil until there is an object to read or to write:
	// most of what is listed and watched has none.
	compiled atomic.Pointer[compiled]
}

// opened is what is made of the definition itself, but for its schema.
type opened struct {
	store      *registry.Store
	status     *registry.Part // nil without a /status
	table      *table
	selectable []selectable
	scale      *apiextensionsv1.CustomResourceSubresourceScale // nil without a /scale
	// replicasPaths are where other versions, and this one, keep replicas.
	replicasPaths map[string]fieldpath.Path
}

// newServing makes the resources of a version, without opening it.
func newServing(s *Source, e *entry, v *entryVersion) *serving {
	sv := &served{
		source: s, family: e.family, fence: e.fence, name: e.name, plural: e.wanted.plural, version: *v, scoped: e.namespaced,
		group: schema.GroupResource{Group: e.group, Resource: e.wanted.plural},
		gvk:   e.groupVersion(v.name).WithKind(e.wanted.kind),
	}
	sv.kind = sv.newKind(e)
	sv.types.served = sv
	in := &serving{served: sv, resources: map[string]*rest.Resource{}}
	for _, r := range e.describe(v) {
		sv.equip(r)
		in.resources[r.Subresource] = r
	}
	return in
}

// describe makes the resources of a version as discovery shows them. They are
// of no other use until they are equipped.
func (e *entry) describe(v *entryVersion) []*rest.Resource {
	gvk := e.groupVersion(v.name).WithKind(e.wanted.kind)
	main := &rest.Resource{
		GroupVersion: gvk.GroupVersion(), Name: e.wanted.plural, Singular: e.accepted.singular,
		ShortNames: e.accepted.shortNames, Categories: e.accepted.categories, Namespaced: e.namespaced,
		Version: &codec.Version{GVK: gvk, List: e.wanted.listKind, Untyped: true}, Storage: instances{},
		StorageVersionHash: storageVersionHash(e.groupVersion(e.storageVersion().name).WithKind(e.wanted.kind)), Custom: true,
	}
	if e.terminating {
		main.WithoutVerbs = []string{"create", "patch", "update"} // in discovery alone
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

// deprecation is what users of a deprecated version are told.
func (e *entry) deprecation(v *entryVersion) string {
	if v.deprecationNotice != "" {
		return v.deprecationNotice
	}
	notice := fmt.Sprintf("%s/%s %s is deprecated", e.group, v.name, e.wanted.kind)
	for i := range e.versions {
		if better := &e.versions[i]; better.served && !better.deprecated {
			// Versions are in order of preference; one of lower stability than
			// the deprecated one is no advice.
			if comparePriority(better.name, v.name) > 0 {
				return notice + fmt.Sprintf("; use %s/%s %s", e.group, better.name, e.wanted.kind)
			}
			break
		}
	}
	return notice
}

// storageVersionHash is what kube-apiserver shows of a storage version.
func storageVersionHash(gvk schema.GroupVersionKind) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s/%s/%s", gvk.Group, gvk.Version, gvk.Kind))
	return base64.StdEncoding.EncodeToString(sum[:8])
}

// equip gives a resource what it takes to answer requests.
func (sv *served) equip(r *rest.Resource) {
	apiVersion := fieldpath.APIVersion(sv.gvk.GroupVersion().String())
	switch r.Subresource {
	case "":
		r.Storage, r.Table, r.WithoutVerbs = instances{sv}, columns{sv}, nil
		if sv.version.status {
			r.ResetFields = map[fieldpath.APIVersion]*fieldpath.Set{apiVersion: fieldpath.NewSet(fieldpath.MakePathOrDie("status"))}
		}
	case "status":
		r.Storage, r.Table = statuses{sv}, columns{sv}
		r.ResetFields = map[fieldpath.APIVersion]*fieldpath.Set{apiVersion: fieldpath.NewSet(
			fieldpath.MakePathOrDie("metadata"), fieldpath.MakePathOrDie("spec"))}
	case "scale":
		kind := &codec.Kind{Hub: registry.ScaleVersion()}
		r.Storage, r.Kind, r.Version = &registry.Scale{Kind: kind, Open: sv.scalable}, kind, kind.Hub
		return
	}
	r.Kind, r.Version, r.TypeConverter, r.FieldLabel = sv.kind, sv.kind.Hub, &sv.types, sv.fieldLabel
}

// storagePath is where the objects of a resource are stored, below the storage
// prefix.
func storagePath(resource schema.GroupResource) string {
	return resource.Group + "/" + resource.Resource
}

// open makes what requests need of the stored definition, once.
func (sv *served) open(ctx context.Context) (*opened, error) {
	if o := sv.opened.Load(); o != nil {
		return o, nil
	}
	if !sv.passing { // which is emptied, established or not
		if err := sv.family.awaitConcluded(ctx, sv.source, sv.group); err != nil {
			return nil, err
		}
	}
	sv.mu.Lock()
	defer sv.mu.Unlock()
	if o := sv.opened.Load(); o != nil {
		return o, nil
	}
	crd, err := sv.source.read(ctx, sv.name, "schema")
	if err != nil {
		return nil, err
	}
	v, err := versionOf(crd, sv.version.name)
	if err != nil {
		return nil, err
	}
	o := &opened{table: newTable(v), selectable: newSelectable(v), replicasPaths: replicasPaths(crd)}
	if v.Subresources != nil {
		o.scale = v.Subresources.Scale
	}
	kept, err := sv.source.config.Storage(StorageSpec{
		Path: storagePath(sv.group), Kind: sv.kind, Namespaced: sv.scoped, Resource: sv.group,
		IndexFields: o.selectableLabels(), Passing: sv.passing,
	})
	if err != nil {
		return nil, fmt.Errorf("open the storage of %s: %w", sv.group, err)
	}
	o.store = &registry.Store{Resource: sv.group, Kind: sv.kind, Strategy: sv.strategy(o), Storage: kept}
	if sv.version.status {
		o.status = &registry.Part{Store: o.store, Strategy: sv.statusStrategy(o)}
	}
	sv.opened.Store(o)
	return o, nil
}
