package builtin

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"mainstay.dev/mainstay/apis/builtin/validation"
	"mainstay.dev/mainstay/codec"
	"mainstay.dev/mainstay/registry"
	"mainstay.dev/mainstay/rest"
	"mainstay.dev/mainstay/storage"
)

// Build turns the rows of all groups into resources. The Env is theirs from
// then on. An error tells which storage could not be opened.
func Build(env *Env, groups []Group) ([]*rest.Resource, error) {
	env.stores, env.paths = map[schema.GroupResource]*registry.Store{}, map[string]bool{}
	env.specs = map[schema.GroupResource]storage.Spec{}
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

// open opens the storage of a row.
func (env *Env) open(spec storage.Spec) storage.Interface {
	env.specs[spec.Resource], env.paths[spec.Path] = spec, true
	if env.Storage == nil {
		return nil
	}
	opened, err := env.Storage(spec)
	if err != nil {
		env.errs = append(env.errs, err)
	}
	return opened
}

// Resource makes an entry of a row.
func Resource[T any, P object[T]](row Row[T]) Entry { return rowEntry[T, P]{row} }

type rowEntry[T any, P object[T]] struct{ row Row[T] }

func (e rowEntry[T, P]) build(env *Env, gv schema.GroupVersion) []*rest.Resource {
	row := &e.row
	partsOf(reflect.TypeFor[T]()).check(reflect.TypeFor[T](), row.Status)
	kind := e.kind(gv)
	resource := schema.GroupResource{Group: gv.Group, Resource: row.Name}
	path := row.StoragePath
	if path == "" {
		path = row.Name
	}
	store := &registry.Store{
		Resource: resource, Kind: kind, Strategy: e.strategy(env),
		Storage: env.open(storage.Spec{Path: path, Kind: kind, Namespaced: row.Namespaced, Resource: resource, IndexFields: row.IndexFields}),
	}
	if row.Costly {
		store.Turns = env.Turns
	}
	env.stores[resource] = store
	hubLabel := row.FieldLabel
	if hubLabel == nil {
		hubLabel = fieldLabels(row.SelectableFields)
	}
	resources := e.serve(env, store, kind.Hub, hubLabel)
	for _, also := range row.Also {
		label := also.FieldLabel
		if label == nil {
			label = hubLabel
		}
		resources = append(resources, e.serve(env, store, also.Version, label)...)
	}
	return resources
}

// storage is the REST storage of the resource itself.
func (e rowEntry[T, P]) storage(store *registry.Store) rest.Storage {
	switch {
	case e.row.OrphanWarning != "":
		return orphanWarner{store, e.row.OrphanWarning}
	case e.row.NoDependents:
		return childless{store}
	}
	return store
}

// serve makes the resource and its subresources in one version.
func (e rowEntry[T, P]) serve(env *Env, store *registry.Store, v *codec.Version, label func(string, string) (string, string, error)) []*rest.Resource {
	row := &e.row
	main := &rest.Resource{
		GroupVersion: v.GVK.GroupVersion(), Name: row.Name, Singular: strings.ToLower(row.Kind),
		ShortNames: row.ShortNames, Categories: row.Categories, Namespaced: row.Namespaced,
		Kind: store.Kind, Version: v, StorageVersionHash: storageVersionHash(e.hashedGVK(store.Kind)), Storage: e.storage(store),
		WithoutVerbs: row.Without, FieldLabel: label, Warning: row.Warning, ReturnDeleted: row.ReturnDeleted,
	}
	if row.Columns != nil {
		main.Table = Table[T, P](row.Columns)
	}
	resources := []*rest.Resource{main}
	if row.Status {
		main.ResetFields = resetFields(v.GVK, append([]string{"status"}, row.Resets...)...)
		status := *main
		status.Subresource, status.ShortNames, status.Categories, status.StorageVersionHash = "status", nil, nil, ""
		status.Storage = &registry.Part{Store: store, Strategy: e.statusStrategy(env, store.Strategy)}
		status.ResetFields = resetFields(v.GVK, slices.Concat([]string{"spec"}, row.StatusKeeps, row.StatusResets)...)
		resources = append(resources, &status)
	}
	for _, sub := range row.Subresources {
		resources = append(resources, sub.build(env, main, store))
	}
	return resources
}

func (e rowEntry[T, P]) kind(gv schema.GroupVersion) *codec.Kind {
	hub := hubVersion[T, P](gv.WithKind(e.row.Kind), e.row.Default)
	kind := &codec.Kind{Hub: hub, Versions: []*codec.Version{hub}, StoredAsJSON: e.row.StoredAsJSON}
	for _, also := range e.row.Also {
		kind.Versions = append(kind.Versions, also.Version)
	}
	kind.Versions = append(kind.Versions, e.row.StoredAlso...)
	if sv := e.row.StorageVersion; !sv.Empty() && sv != gv {
		kind.Stored = relabelled(hub, sv)
		kind.Versions = append(kind.Versions, kind.Stored)
	}
	if e.row.Fields != nil {
		kind.Fields = func(obj codec.Object) fields.Set { return e.row.Fields(typed[T, P](obj)) }
	}
	return kind
}

// hashedGVK is what the storage version hash is made of.
func (e rowEntry[T, P]) hashedGVK(kind *codec.Kind) schema.GroupVersionKind {
	if !e.row.HashedAs.Empty() {
		return e.row.HashedAs.WithKind(e.row.Kind)
	}
	if kind.Stored != nil {
		return kind.Stored.GVK
	}
	return kind.Hub.GVK
}

// storageVersionHash is what kube-apiserver shows of a storage version.
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

// fieldLabels accepts the keys that every kind has, and those given.
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

func typed[T any, P object[T]](obj codec.Object) *T { return (*T)(obj.(P)) }

// strategy makes the rules of the resource itself.
func (e rowEntry[T, P]) strategy(env *Env) *registry.Strategy {
	row, p := e.row, partsOf(reflect.TypeFor[T]())
	s := &registry.Strategy{
		Namespaced: row.Namespaced, ValidateName: row.ValidateName, Generation: row.Generation,
		AllowCreateOnUpdate: row.CreateOnUpdate, RequireResourceVersion: row.RequireResourceVersion,
		OrphanByDefault: row.OrphanByDefault,
	}
	s.SpecChanged = func(obj, old codec.Object) bool {
		if row.SpecChanged != nil {
			return row.SpecChanged(typed[T, P](obj), typed[T, P](old))
		}
		return p.specChanged(obj, old)
	}
	s.PrepareForCreate = func(ctx context.Context, obj codec.Object) {
		if row.Status && !row.StatusOnCreate {
			p.clearStatus(obj)
		}
		if row.Prepare != nil {
			row.Prepare(&Operation{ctx, env}, typed[T, P](obj))
		}
	}
	s.PrepareForUpdate = func(ctx context.Context, obj, old codec.Object) {
		if row.Status {
			p.keepStatus(obj, old)
		}
		if row.PrepareUpdate != nil {
			row.PrepareUpdate(&Operation{ctx, env}, typed[T, P](obj), typed[T, P](old))
		}
	}
	if row.Validate != nil {
		s.Validate = func(ctx context.Context, obj codec.Object) field.ErrorList {
			return env.validator.Validate(ctx, func(f validation.Field) { row.Validate(f, typed[T, P](obj), nil) })
		}
	}
	s.ValidateUpdate = validateUpdate[T, P](env, row.Validate)
	e.warnings(env, s)
	e.deletion(s)
	if row.TTL != nil {
		s.TTL = func(obj codec.Object) time.Duration { return row.TTL(env, typed[T, P](obj)) }
	}
	return s
}

func (e rowEntry[T, P]) warnings(env *Env, s *registry.Strategy) {
	row := e.row
	if row.Warnings == nil {
		return
	}
	s.WarningsOnCreate = func(ctx context.Context, obj codec.Object) []string {
		return row.Warnings(&Operation{ctx, env}, typed[T, P](obj), nil)
	}
	s.WarningsOnUpdate = func(ctx context.Context, obj, old codec.Object) []string {
		return row.Warnings(&Operation{ctx, env}, typed[T, P](obj), typed[T, P](old))
	}
}

func (e rowEntry[T, P]) deletion(s *registry.Strategy) {
	row := e.row
	if row.GracePeriod != nil {
		s.GracePeriod = func(obj codec.Object, asked *int64) int64 { return row.GracePeriod(typed[T, P](obj), asked) }
	}
	if row.Held != nil {
		s.Held = func(obj codec.Object) bool { return row.Held(typed[T, P](obj)) }
	}
	if row.OnMark != nil {
		s.OnMark = func(obj codec.Object) { row.OnMark(typed[T, P](obj)) }
	}
}

// statusStrategy makes the rules of /status from those of the resource.
func (e rowEntry[T, P]) statusStrategy(env *Env, main *registry.Strategy) *registry.Strategy {
	row, p := e.row, partsOf(reflect.TypeFor[T]())
	var keeps []func(obj, old codec.Object)
	for _, name := range row.StatusKeeps {
		keeps = append(keeps, keepMetadata(name))
	}
	s := *main
	s.SpecChanged = nil // a status does not count
	s.PrepareForUpdate = func(ctx context.Context, obj, old codec.Object) {
		p.keepAllButStatus(obj, old)
		for _, keep := range keeps {
			keep(obj, old)
		}
		if row.PrepareStatus != nil {
			row.PrepareStatus(&Operation{ctx, env}, typed[T, P](obj), typed[T, P](old))
		}
	}
	s.ValidateUpdate = validateUpdate[T, P](env, row.ValidateStatus)
	s.WarningsOnUpdate = nil
	return &s
}

func validateUpdate[T any, P object[T]](env *Env, rules func(validation.Field, *T, *T)) func(context.Context, codec.Object, codec.Object) field.ErrorList {
	if rules == nil {
		return nil
	}
	return func(ctx context.Context, obj, old codec.Object) field.ErrorList {
		return env.validator.Validate(ctx, func(f validation.Field) { rules(f, typed[T, P](obj), typed[T, P](old)) })
	}
}
