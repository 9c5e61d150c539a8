package controlplane

import (
	"sync"

	"mainstay.dev/mainstay/internal/apis/builtin"
	"mainstay.dev/mainstay/internal/apis/builtin/all"
	"mainstay.dev/mainstay/internal/apis/custom"
	"mainstay.dev/mainstay/internal/endpoints/openapi"
	"mainstay.dev/mainstay/internal/endpoints/route"
)

// Shared contains the immutable parts that are equal in all control planes with the same options, so that
// each further control plane needs less memory. The methods of a nil *Shared return new data. It is safe for
// concurrent use.
type Shared struct {
	declared func() []builtin.Group
	once     sync.Once
	parts    []openapi.Part
	schemas  custom.SchemaCache
}

// NewShared returns a Shared for control planes with the same Options.Features.
func NewShared() *Shared { return &Shared{declared: sync.OnceValue(all.Groups)} }

// groups returns the declarations of the built-in resources.
func (s *Shared) groups() []builtin.Group {
	if s == nil {
		return all.Groups()
	}
	return s.declared()
}

// customSchemas returns the cache of the compiled schemas of custom resources; nil without one.
func (s *Shared) customSchemas() *custom.SchemaCache {
	if s == nil {
		return nil
	}
	return &s.schemas
}

// openAPIParts returns the OpenAPI parts of the built-in resources. served must be equal in all calls.
func (s *Shared) openAPIParts(served route.Source) []openapi.Part {
	if s == nil {
		return openAPIParts(served)
	}
	s.once.Do(func() { s.parts = openAPIParts(served) })
	return s.parts
}
