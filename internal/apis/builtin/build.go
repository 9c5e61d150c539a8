package builtin

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"mainstay.dev/mainstay/internal/apis/builtin/validation"
	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/feature"
	"mainstay.dev/mainstay/internal/feature/emulation"
	"mainstay.dev/mainstay/internal/registry"
	"mainstay.dev/mainstay/internal/rest"
	"mainstay.dev/mainstay/internal/storage"
)

// Build creates the resources of all rows. The resources retain env. If storage cannot be opened, Build
// returns the resources together with an error. See also Declare.
func Build(env *Env, groups []Group) ([]*rest.Resource, error) {
	env.begin(declarations{
		specs:   map[schema.GroupResource]*storage.Spec{},
		paths:   map[string]*storage.Spec{},
		lacking: map[*codec.Kind]*emulation.Fields{},
	})
	var resources []*rest.Resource
	for _, group := range groups {
		for _, entry := range group.Resources {
			resources = append(resources, entry.build(env, group.GroupVersion)...)
		}
	}
	return resources, errors.Join(env.built.errs...)
}

// begin resets the internal state of env before resources are created.
func (env *Env) begin(d declarations) {
	env.built = built{declarations: d, stores: map[schema.GroupResource]*registry.Store{}, validator: validation.NewValidator(env.Gates)}
	env.built.validator.DenyPrivileged = env.DenyPrivileged
}

// open opens the storage of a kind. On failure, it returns nil and records the error in env.built.errs.
func (env *Env) open(spec storage.Spec) storage.Interface {
	if env.Storage.Open == nil {
		return nil
	}
	opened, err := env.Storage.Open(spec)
	if err != nil {
		env.built.errs = append(env.built.errs, err)
	}
	return opened
}

// resource is a Row with its type parameter erased.
type resource struct {
	Row[codec.Object] // without Columns
	goType            reflect.Type
	newObject         func() codec.Object
	table             rest.TableConvertor // nil shows name and age
}

// Resource creates the entry for a row.
func Resource[T any, O object[T]](row Row[O]) Entry {
	r := &resource{Row: erase(&row), goType: reflect.TypeFor[T](), newObject: func() codec.Object { return O(new(T)) }}
	if row.Columns != nil {
		r.table = Table(row.Columns)
	}
	return r
}

// InternalResource creates the entry for a row whose objects are stored by the hooks of other rows and are not
// served by the API. Env.Store returns the store of these objects.
func InternalResource[T any, O object[T]](row Row[O]) Entry {
	return internalResource{Resource[T, O](row)}
}

type internalResource struct{ Entry }

func (r internalResource) build(env *Env, gv schema.GroupVersion) []*rest.Resource {
	r.Entry.build(env, gv)
	return nil
}

func (r *resource) build(env *Env, gv schema.GroupVersion) []*rest.Resource {
	if !env.needs(r, gv) {
		return nil
	}
	store := r.store(env, gv)
	convertLabel := r.FieldSelectors.ConvertLabel
	if convertLabel == nil {
		convertLabel = checkFieldLabel(r.FieldSelectors.Keys)
	}
	var resources []*rest.Resource
	hub := store.Kind.Hub
	if env.builds(gv.WithResource(r.Names.Plural)) {
		deprecated := deprecation{warning: r.Versions.Warning}
		if r.Versions.Deprecated > 0 {
			deprecated = env.deprecatedSince(r.Versions.Deprecated, hub.GVK, "")
		}
		resources = r.serve(env, store, servedVersion{hub, convertLabel, deprecated})
	}
	for i := range r.Versions.Others {
		other := &r.Versions.Others[i]
		version := store.Kind.Version(other.groupVersion())
		if !env.builds(version.GVK.GroupVersion().WithResource(r.Names.Plural)) {
			continue
		}
		named := *store // API errors name the requested group
		named.Resource.Group = version.GVK.Group
		served := servedVersion{version, convertLabel, env.deprecatedSince(other.Deprecated, version.GVK, other.Successor)}
		if other.ConvertLabel != nil {
			served.convertLabel = other.ConvertLabel
		}
		resources = append(resources, r.serve(env, &named, served)...)
	}
	return resources
}

// store creates the store of the resource and registers it in env.
func (r *resource) store(env *Env, gv schema.GroupVersion) *registry.Store {
	name := schema.GroupResource{Group: gv.Group, Resource: r.Names.Plural}
	spec := env.built.specs[name]
	if spec == nil {
		spec = r.declare(env, gv)
		env.built.specs[name], env.built.paths[spec.Path] = spec, spec
	}
	store := &registry.Store{
		Resource: name, Kind: spec.Kind, Strategy: r.strategy(env, spec.Kind), Storage: env.open(*spec), Deletion: env.Deletion,
	}
	if r.WritePolicy.ExpensiveValidation {
		store.Limiter = env.ValidationLimiter
	}
	env.built.stores[name] = store
	return store
}

// declare creates the kind of the resource and returns the specification of its storage.
func (r *resource) declare(env *Env, gv schema.GroupVersion) *storage.Spec {
	kind := r.kind(gv, env.Gates)
	if env.Release != nil {
		r.emulate(env, kind)
	}
	if env.Storage.Shared && r.Storage.SharedVersion != nil {
		kind.Stored = r.Storage.SharedVersion
	}
	path, name := r.stored()
	return &storage.Spec{
		Path: path, Kind: kind, Namespaced: r.Namespaced, Resource: schema.GroupResource{Group: gv.Group, Resource: name},
		IndexFields: r.FieldSelectors.Indexed,
	}
}

// servedVersion contains the settings of a resource that are specific to one served version.
type servedVersion struct {
	version      *codec.Version
	convertLabel FieldLabelFunc
	deprecated   deprecation
}

// Paths maps the storage paths of all rows, relative to the storage prefix, to their resources. It includes
// rows that are not served.
func Paths(groups []Group) map[string]schema.GroupResource {
	paths := map[string]schema.GroupResource{}
	for _, group := range groups {
		for _, entry := range group.Resources {
			if path, name := entry.stored(); path != "" {
				paths[path] = schema.GroupResource{Group: group.GroupVersion.Group, Resource: name}
			}
		}
	}
	return paths
}

func (r *resource) stored() (path, name string) {
	return cmp.Or(r.Storage.Path, r.Names.Plural), r.Names.Plural
}

func (r *resource) versions(gv schema.GroupVersion) []schema.GroupVersion {
	versions := []schema.GroupVersion{gv}
	for i := range r.Versions.Others {
		versions = append(versions, r.Versions.Others[i].groupVersion())
	}
	return versions
}

// storage returns the REST storage of the main resource, as opposed to its subresources.
func (r *resource) storage(store *registry.Store) rest.Storage {
	switch {
	case r.Deletion.OrphanWarning != "":
		return orphanWarner{store, r.Deletion.OrphanWarning}
	case r.Deletion.NoDependents:
		return noDependents{store}
	case r.Deletion.ForbidName != nil:
		return deletionForbidder{store, r.Deletion.ForbidName}
	}
	return store
}

// serve creates the resource and its subresources in one version.
func (r *resource) serve(env *Env, store *registry.Store, served servedVersion) []*rest.Resource {
	gvk := served.version.GVK
	main := &rest.Resource{
		GroupVersion: gvk.GroupVersion(), Name: r.Names.Plural, Singular: strings.ToLower(r.Names.Kind),
		ShortNames: r.Names.ShortNames, Categories: r.Names.Categories, Namespaced: r.Namespaced,
		Kind: store.Kind, Version: served.version, StorageVersionHash: storageVersionHash(r.hashedGVK(store.Kind)), Storage: r.storage(store),
		WithoutVerbs: r.WritePolicy.DisabledVerbs, ReturnDeleted: r.WritePolicy.ReturnDeletedObject,
		FieldLabel: served.convertLabel, Warning: served.deprecated.warning, RemovedRelease: served.deprecated.removedRelease,
		Table: r.table,
	}
	resources := []*rest.Resource{main}
	if s := r.Status; s != nil {
		main.ResetFields = resetFields(gvk, append([]string{"status"}, s.MainResetFields...)...)
		status := *main
		status.Subresource, status.ShortNames, status.Categories, status.StorageVersionHash = "status", nil, nil, ""
		status.Storage = &registry.SubresourceStore{Store: store, Subresource: "status", Strategy: r.statusStrategy(env, store)}
		status.ResetFields = resetFields(gvk, slices.Concat([]string{"spec"}, s.PreservedMetadata, s.ResetFields)...)
		resources = append(resources, &status)
	}
	for _, sub := range r.Subresources {
		resources = append(resources, sub.build(env, main, store))
	}
	return resources
}

func (r *resource) kind(gv schema.GroupVersion, gates feature.Gates) *codec.Kind {
	hub := &codec.Version{GVK: gv.WithKind(r.Names.Kind), New: r.newObject, Default: r.Strategy.defaultsFor(gates)}
	kind := &codec.Kind{Hub: hub, Versions: []*codec.Version{hub}, Fields: r.FieldSelectors.Values, StoredAsJSON: r.Storage.JSON}
	for i := range r.Versions.Others {
		kind.Versions = append(kind.Versions, r.Versions.Others[i].codec(hub))
	}
	kind.Versions = append(kind.Versions, r.Storage.ReadableVersions...)
	if stored := r.Storage.Version; !stored.Empty() && stored != gv {
		if kind.Stored = kind.Version(stored); kind.Stored == nil {
			kind.Stored = relabelled(hub, stored)
			kind.Versions = append(kind.Versions, kind.Stored)
		}
	}
	return kind
}

// hashedGVK returns the kind and version from which the storage version hash is computed.
func (r *resource) hashedGVK(kind *codec.Kind) schema.GroupVersionKind {
	if !r.Storage.HashedVersion.Empty() {
		return r.Storage.HashedVersion.WithKind(r.Names.Kind)
	}
	if kind.Stored != nil {
		return kind.Stored.GVK
	}
	return kind.Hub.GVK
}

// storageVersionHash returns the hash of a storage version. It is computed in the same way as in
// kube-apiserver.
func storageVersionHash(gvk schema.GroupVersionKind) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s/%s/%s", gvk.Group, gvk.Version, gvk.Kind))
	return base64.StdEncoding.EncodeToString(sum[:8])
}

// resetFields returns the set of reset fields for a version. paths are dotted field paths.
func resetFields(gvk schema.GroupVersionKind, paths ...string) map[fieldpath.APIVersion]*fieldpath.Set {
	set := fieldpath.NewSet()
	for _, path := range paths {
		var parts []any
		for name := range strings.SplitSeq(path, ".") {
			parts = append(parts, name)
		}
		set.Insert(fieldpath.MakePathOrDie(parts...))
	}
	return map[fieldpath.APIVersion]*fieldpath.Set{fieldpath.APIVersion(gvk.GroupVersion().String()): set}
}

// checkFieldLabel returns a function that accepts the given keys, and metadata.name and metadata.namespace,
// which all kinds support.
func checkFieldLabel(selectable []string) FieldLabelFunc {
	return func(label, value string) (string, string, error) {
		if label == "metadata.name" || label == "metadata.namespace" || slices.Contains(selectable, label) {
			return label, value, nil
		}
		if len(selectable) == 0 {
			return "", "", fmt.Errorf("%q is not a known field selector: only %q, %q", label, "metadata.name", "metadata.namespace")
		}
		return "", "", fmt.Errorf("field label not supported: %s", label)
	}
}
