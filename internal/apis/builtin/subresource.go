package builtin

import (
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/registry"
	"mainstay.dev/mainstay/internal/rest"
)

// Subresource declares a subresource of a row other than status.
type Subresource struct {
	Name string
	// Version is the version of request and response bodies. nil selects the version of the resource.
	Version *codec.Version
	// Kind is the kind of request and response bodies that have their own kind and managed fields. If it is
	// set, Version must also be set.
	Kind *codec.Kind
	// Table converts bodies of another kind to tables. It is nil if such bodies have no table.
	Table rest.TableConvertor
	// Storage creates the REST storage of the subresource. store is the store of the main resource.
	Storage func(env *Env, store *registry.Store) rest.Storage
	// ResetFields contains the dotted paths of fields that the subresource does not write. See rest.Resource.
	ResetFields []string
}

func (s Subresource) build(env *Env, main *rest.Resource, store *registry.Store) *rest.Resource {
	r := &rest.Resource{
		GroupVersion: main.GroupVersion, Name: main.Name, Subresource: s.Name, Singular: main.Singular,
		Namespaced: main.Namespaced, Kind: main.Kind, Version: main.Version,
		Storage: s.Storage(env, store), Table: main.Table, Warning: main.Warning, RemovedRelease: main.RemovedRelease,
	}
	if s.Version != nil {
		r.Kind, r.Version, r.Table, r.WithoutTable = s.Kind, s.Version, s.Table, s.Table == nil
	}
	if len(s.ResetFields) > 0 {
		r.ResetFields = resetFields(r.Version.GVK, s.ResetFields...)
	}
	return r
}

// Virtual declares a resource whose objects are not stored, such as reviews, bindings and component statuses.
// It implements Entry.
type Virtual struct {
	Name    string
	Version *codec.Version
	// Kind is set if the objects have managed fields.
	Kind       *codec.Kind
	ShortNames []string
	Namespaced bool
	Warning    string
	// Columns converts objects to tables. It is nil if the objects have no table.
	Columns rest.TableConvertor
	Storage func(env *Env) rest.Storage
}

// VirtualVersion returns the version of a Virtual whose Go type is T.
func VirtualVersion[T any, P object[T]](gvk schema.GroupVersionKind) *codec.Version {
	return hubVersion[T, P](gvk, nil)
}

func (v Virtual) build(env *Env, gv schema.GroupVersion) []*rest.Resource {
	return []*rest.Resource{{
		GroupVersion: gv, Name: v.Name, Singular: strings.ToLower(v.Version.GVK.Kind), ShortNames: v.ShortNames,
		Namespaced: v.Namespaced, Kind: v.Kind, Version: v.Version,
		Warning: v.Warning, Table: v.Columns, WithoutTable: v.Columns == nil, Storage: v.Storage(env),
	}}
}

func (v Virtual) stored() (path, name string) { return "", "" }

func (v Virtual) versions(gv schema.GroupVersion) []schema.GroupVersion {
	return []schema.GroupVersion{gv}
}
