package builtin

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"mainstay.dev/mainstay/internal/apis/builtin/validation"
	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/feature"
	"mainstay.dev/mainstay/internal/registry"
	"mainstay.dev/mainstay/internal/rest"
	"mainstay.dev/mainstay/internal/storage"
)

// Build creates the resources of all rows. They retain the Env. An error contains the storage that
// could not be opened.
func Build(env *Env, groups []Group) ([]*rest.Resource, error) {
	env.stores, env.paths = map[schema.GroupResource]*registry.Store{}, map[string]bool{}
	env.specs = map[schema.GroupResource]*storage.Spec{}
	env.validator = validation.NewValidator(env.Gates)
	env.validator.DenyPrivileged = env.DenyPrivileged
	var resources []*rest.Resource
	for _, group := range groups {
		for _, entry := range group.Resources {
			resources = append(resources, entry.build(env, group.GroupVersion)...)
		}
	}
	return resources, errors.Join(env.errs...)
}

// open opens the storage of a k.
func (env *Env) open(spec storage.Spec) storage.Interface {
	env.specs[spec.Resource], env.paths[spec.Path] = &spec, true
	if env.Storage == nil {
		return nil
	}
	opened, err := env.Storage(spec)
	if err != nil {
		env.errs = append(env.errs, err)
	}
	return opened
}

func (k *kindRow) build(env *Env, gv schema.GroupVersion) []*rest.Resource {
	if !env.needs(k, gv) {
		return nil
	}
	partsOf(k.goType).check(k.goType, k.Status)
	kind := k.kind(gv, env.Gates)
	if env.Shared && k.StoredShared != nil {
		kind.Stored = k.StoredShared
	}
	resource := schema.GroupResource{Group: gv.Group, Resource: k.Name}
	path, _ := k.stored()
	store := &registry.Store{
		Resource: resource, Kind: kind, Strategy: k.strategy(env),
		Storage: env.open(storage.Spec{Path: path, Kind: kind, Namespaced: k.Namespaced, Resource: resource, IndexFields: k.IndexFields}),
	}
	if k.Expensive {
		store.Limiter = env.Limiter
	}
	env.stores[resource] = store
	hubLabel := k.FieldLabel
	if hubLabel == nil {
		hubLabel = fieldLabels(k.SelectableFields)
	}
	var resources []*rest.Resource
	if env.builds(gv.WithResource(k.Name)) {
		deprecated := deprecation{warning: k.Warning}
		if k.Deprecated > 0 {
			deprecated = deprecatedSince(k.Deprecated, kind.Hub.GVK, "")
		}
		resources = k.serve(env, store, kind.Hub, hubLabel, deprecated)
	}
	for i := range k.Also {
		also := &k.Also[i]
		v := kind.Version(also.groupVersion())
		if !env.builds(v.GVK.GroupVersion().WithResource(k.Name)) {
			continue
		}
		label := also.FieldLabel
		if label == nil {
			label = hubLabel
		}
		named := *store // its errors contain the requested group
		named.Resource.Group = v.GVK.Group
		resources = append(resources, k.serve(env, &named, v, label, deprecatedSince(also.Deprecated, v.GVK, also.Successor))...)
	}
	return resources
}

// Paths returns the resources of all rows, served or not, by the paths of their objects
// below the storage prefix.
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

func (k *kindRow) stored() (path, name string) {
	if k.StoragePath != "" {
		return k.StoragePath, k.Name
	}
	return k.Name, k.Name
}

func (k *kindRow) versions(gv schema.GroupVersion) []schema.GroupVersion {
	versions := []schema.GroupVersion{gv}
	for i := range k.Also {
		versions = append(versions, k.Also[i].groupVersion())
	}
	return versions
}

// storage is the REST storage of the resource itself.
func (k *kindRow) storage(store *registry.Store) rest.Storage {
	switch {
	case k.OrphanWarning != "":
		return orphanWarner{store, k.OrphanWarning}
	case k.NoDependents:
		return childless{store}
	case k.Undeletable != nil:
		return undeletable{store, k.Undeletable}
	}
	return store
}

// serve makes the resource and its subresources in one version.
func (k *kindRow) serve(env *Env, store *registry.Store, v *codec.Version, label func(string, string) (string, string, error), deprecated deprecation) []*rest.Resource {
	main := &rest.Resource{
		GroupVersion: v.GVK.GroupVersion(), Name: k.Name, Singular: strings.ToLower(k.Kind),
		ShortNames: k.ShortNames, Categories: k.Categories, Namespaced: k.Namespaced,
		Kind: store.Kind, Version: v, StorageVersionHash: storageVersionHash(k.hashedGVK(store.Kind)), Storage: k.storage(store),
		WithoutVerbs: k.Without, FieldLabel: label, Warning: deprecated.warning, RemovedRelease: deprecated.removedRelease, ReturnDeleted: k.ReturnDeleted,
		Table: k.table,
	}
	resources := []*rest.Resource{main}
	if k.Status {
		main.ResetFields = resetFields(v.GVK, append([]string{"status"}, k.Resets...)...)
		status := *main
		status.Subresource, status.ShortNames, status.Categories, status.StorageVersionHash = "status", nil, nil, ""
		status.Storage = &registry.Part{Store: store, Subresource: "status", Strategy: k.statusStrategy(env, store.Strategy)}
		status.ResetFields = resetFields(v.GVK, slices.Concat([]string{"spec"}, k.StatusKeeps, k.StatusResets)...)
		resources = append(resources, &status)
	}
	for _, sub := range k.Subresources {
		resources = append(resources, sub.build(env, main, store))
	}
	return resources
}

func (k *kindRow) kind(gv schema.GroupVersion, gates feature.Gates) *codec.Kind {
	hub := &codec.Version{GVK: gv.WithKind(k.Kind), New: k.hub, Default: k.defaultsOf(gates)}
	kind := &codec.Kind{Hub: hub, Versions: []*codec.Version{hub}, StoredAsJSON: k.StoredAsJSON}
	for i := range k.Also {
		kind.Versions = append(kind.Versions, k.Also[i].version(hub))
	}
	kind.Versions = append(kind.Versions, k.StoredAlso...)
	if sv := k.StorageVersion; !sv.Empty() && sv != gv {
		if kind.Stored = kind.Version(sv); kind.Stored == nil {
			kind.Stored = relabelled(hub, sv)
			kind.Versions = append(kind.Versions, kind.Stored)
		}
	}
	kind.Fields = k.fields
	return kind
}

// hashedGVK returns the input of the storage version hash.
func (k *kindRow) hashedGVK(kind *codec.Kind) schema.GroupVersionKind {
	if !k.HashedAs.Empty() {
		return k.HashedAs.WithKind(k.Kind)
	}
	if kind.Stored != nil {
		return kind.Stored.GVK
	}
	return kind.Hub.GVK
}

// storageVersionHash returns the hash of a storage version, as in kube-apiserver.
func storageVersionHash(gvk schema.GroupVersionKind) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s/%s/%s", gvk.Group, gvk.Version, gvk.Kind))
	return base64.StdEncoding.EncodeToString(sum[:8])
}

// resetFields names fields by their dotted paths.
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

// fieldLabels accepts the keys of all kinds, and the given ones.
func fieldLabels(selectable []string) func(label, value string) (string, string, error) {
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

// strategy makes the rules of the resource itself.
func (k *kindRow) strategy(env *Env) *registry.Strategy {
	p := partsOf(k.goType)
	s := &registry.Strategy{
		Namespaced: k.Namespaced, ValidateName: k.ValidateName,
		Generation:          k.Generation && (k.GenerationGate == "" || env.Gates.Enabled(k.GenerationGate)),
		AllowCreateOnUpdate: k.CreateOnUpdate, RequireResourceVersion: k.RequireResourceVersion,
		ExactGenerateName: k.ExactGenerateName, OrphanByDefault: k.OrphanByDefault, Finalizers: registry.RejectUnqualifiedFinalizers,
	}
	if k.AnyFinalizer {
		s.Finalizers = registry.AllowUnqualifiedFinalizers
	}
	s.SpecChanged = k.specChanged
	if s.SpecChanged == nil {
		s.SpecChanged = func(obj, old codec.Object) bool { return p.specChanged(obj, old) }
	}
	if k.authorize != nil {
		s.Authorize = func(ctx context.Context, obj, old codec.Object) error {
			return k.authorize(&Operation{Context: ctx, Env: env}, obj, old)
		}
	}
	s.PrepareForCreate = func(ctx context.Context, obj codec.Object) {
		if k.Status && !k.StatusOnCreate {
			p.clearStatus(obj)
		}
		k.dropDisabled(env, obj, nil)
		if k.prepare != nil {
			k.prepare(&Operation{Context: ctx, Env: env}, obj)
		}
	}
	s.PrepareForUpdate = func(ctx context.Context, obj, old codec.Object) {
		if k.Status {
			p.keepStatus(obj, old)
		}
		if k.prepareUpdate != nil {
			k.prepareUpdate(&Operation{Context: ctx, Env: env}, obj, old)
		}
		k.dropDisabled(env, obj, old)
	}
	rules := permitted(env, k.permit, k.validate)
	if rules != nil {
		s.Validate = func(ctx context.Context, obj codec.Object) field.ErrorList {
			return env.validator.Validate(ctx, func(f validation.Field) { rules(f, obj, nil) })
		}
	}
	s.ValidateUpdate = validateUpdate(env, rules)
	k.warn(env, s)
	s.GracePeriod, s.BlocksRemoval, s.PrepareForDelete = k.gracePeriod, k.held, k.onMark
	if k.begin != nil {
		s.Begin = func(ctx context.Context, obj, old codec.Object, dryRun bool) (registry.Transaction, error) {
			return k.begin(&Operation{Context: ctx, Env: env, DryRun: dryRun}, obj, old)
		}
	}
	if k.ttl != nil {
		s.TTL = func(obj codec.Object) time.Duration { return k.ttl(env, obj) }
	}
	return s
}

func (k *kindRow) warn(env *Env, s *registry.Strategy) {
	if k.warnings == nil {
		return
	}
	s.WarningsOnCreate = func(ctx context.Context, obj codec.Object) []string {
		return k.warnings(&Operation{Context: ctx, Env: env}, obj, nil)
	}
	s.WarningsOnUpdate = func(ctx context.Context, obj, old codec.Object) []string {
		return k.warnings(&Operation{Context: ctx, Env: env}, obj, old)
	}
}

// statusStrategy creates the strategy of /status from that of the resource.
func (k *kindRow) statusStrategy(env *Env, main *registry.Strategy) *registry.Strategy {
	p := partsOf(k.goType)
	var keeps []func(obj, old codec.Object)
	for _, name := range k.StatusKeeps {
		keeps = append(keeps, keepMetadata(name))
	}
	s := *main
	s.SpecChanged = nil // a status does not count
	s.Begin = beginRemovals(main.Begin)
	s.PrepareForUpdate = func(ctx context.Context, obj, old codec.Object) {
		p.keepAllButStatus(obj, old)
		for _, keep := range keeps {
			keep(obj, old)
		}
		k.dropDisabled(env, obj, old)
		if k.prepareStatus != nil {
			k.prepareStatus(&Operation{Context: ctx, Env: env}, obj, old)
		}
	}
	s.ValidateUpdate = validateUpdate(env, permitted(env, k.permitStatus, k.validateStatus))
	s.WarningsOnUpdate = nil
	return &s
}

// beginRemovals returns the Begin of /status: a status has no allocations, but its write can remove
// the last finalizer, and with it the object.
func beginRemovals(begin registry.Begin) registry.Begin {
	if begin == nil {
		return nil
	}
	return func(ctx context.Context, obj, old codec.Object, dryRun bool) (registry.Transaction, error) {
		if obj != nil {
			return registry.Transaction{}, nil
		}
		return begin(ctx, nil, old, dryRun)
	}
}

// permitted returns the strategy with a Permit hook in front.
func permitted(env *Env, permit func(op *Operation, f validation.Field, obj, old codec.Object), rules func(f validation.Field, obj, old codec.Object)) func(f validation.Field, obj, old codec.Object) {
	if permit == nil {
		return rules
	}
	return func(f validation.Field, obj, old codec.Object) {
		permit(&Operation{Context: f.Context(), Env: env}, f, obj, old)
		if rules != nil {
			rules(f, obj, old)
		}
	}
}

func validateUpdate(env *Env, rules func(f validation.Field, obj, old codec.Object)) func(context.Context, codec.Object, codec.Object) field.ErrorList {
	if rules == nil {
		return nil
	}
	return func(ctx context.Context, obj, old codec.Object) field.ErrorList {
		return env.validator.Validate(ctx, func(f validation.Field) { rules(f, obj, old) })
	}
}
