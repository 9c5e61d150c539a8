package controlplane

import (
	"slices"
	"sync"

	"mainstay.dev/mainstay/internal/apis/builtin"
	"mainstay.dev/mainstay/internal/apis/builtin/all"
	"mainstay.dev/mainstay/internal/apis/custom"
	"mainstay.dev/mainstay/internal/endpoints/openapi"
	"mainstay.dev/mainstay/internal/endpoints/route"
	"mainstay.dev/mainstay/internal/feature"
	"mainstay.dev/mainstay/internal/filters/authz/rbac"
	"mainstay.dev/mainstay/internal/rest"
)

// Shared contains the immutable parts that are equal in all control planes with the same options, so that each
// additional control plane needs less memory. The methods of a nil *Shared return nil or new data. It is safe
// for concurrent use.
type Shared struct {
	gatesOnce, declaredOnce sync.Once

	gates    feature.Gates
	declared *declaredResources
	schemas  custom.SchemaCache
	rbac     rbac.Shared
}

// NewShared returns a Shared for control planes of one host with the same Options.Features.
func NewShared() *Shared { return &Shared{} }

// customSchemas returns the cache of the compiled schemas of custom resources, or nil if s is nil.
func (s *Shared) customSchemas() *custom.SchemaCache {
	if s == nil {
		return nil
	}
	return &s.schemas
}

// rbacObjects returns the roles and bindings that control planes share, or nil if s is nil.
func (s *Shared) rbacObjects() *rbac.Shared {
	if s == nil {
		return nil
	}
	return &s.rbac
}

// enabledGates returns the feature gates of options, which must be equal in all calls.
func (s *Shared) enabledGates(options *Options) feature.Gates {
	if s == nil {
		return options.Gates()
	}
	s.gatesOnce.Do(func() { s.gates = options.Gates() })
	return s.gates
}

// declaredBuiltin returns the declarations of the built-in resources. The settings that select them must be
// equal in all calls.
func (s *Shared) declaredBuiltin(of *settings) *declaredResources {
	if s == nil {
		return newDeclaredResources(of)
	}
	s.declaredOnce.Do(func() { s.declared = newDeclaredResources(of) })
	return s.declared
}

// declaredResources are the declarations of built-in resources. They are immutable.
type declaredResources struct {
	*builtin.Declared
	static  *route.Static // all built-in resources
	served  *route.Static // resources that clients can use
	openAPI []openapi.Part
}

func newDeclaredResources(s *settings) *declaredResources {
	env := newDeclarationEnv(s)
	d := &declaredResources{Declared: builtin.Declare(env, all.Groups())}
	// Several control planes can open the storage of a kind at the same time, so this field is set here and not
	// in their storage factories.
	for _, spec := range env.Specs() {
		spec.Kind.EncodingCache = s.env.Storage.Encodings
	}
	d.static = route.NewStatic(d.Resources())
	d.served = d.static
	if !env.Enablement.All() || env.Release != nil {
		d.served = route.NewStatic(slices.DeleteFunc(slices.Clone(d.Resources()), func(r *rest.Resource) bool { return !env.Serves(r.GVR(), r.Version.GVK.Kind) }))
	}
	d.openAPI = openAPIParts(d.served)
	return d
}
