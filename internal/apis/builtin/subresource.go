package builtin

import (
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/registry"
	"mainstay.dev/mainstay/internal/rest"
)

// Subresource is something that an object of a row has, besides status.
type Subresource struct {
	Name string
	// Version is the version of the bodies; nil selects the version of the resource.
	Version *codec.Version
	// Kind is set, with Version, where bodies are of another kind and their
	// fields have managers.
	Kind *codec.Kind
	// Table makes rows of bodies that are of another kind; nil: these have no
	// table.
	Table rest.TableConvertor
	// Storage makes the REST storage over the resource's own.
	Storage func(env *Env, store *registry.Store) rest.Storage
	// ResetFields is as in rest.Resource: the dotted paths of fields that this
	// subresource does not write.
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

// Virtual is a resource that is not stored: reviews, bindings, statuses made
// on reading.
type Virtual struct {
	Name    string
	Version *codec.Version
	// Kind is set for subresources with managed fields whose objects are not stored.
	Kind       *codec.Kind
	ShortNames []string
	Namespaced bool
	Warning    string
	// Columns make rows; nil: there is no table.
	Columns rest.TableConvertor
	Storage func(env *Env) rest.Storage
}

// VirtualVersion is the version of a type that is not stored.
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
