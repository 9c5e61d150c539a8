package custom

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"

	"mainstay.dev/mainstay/internal/apis/custom/conversion"
	"mainstay.dev/mainstay/internal/apis/custom/definition"
	"mainstay.dev/mainstay/internal/apis/custom/rules"
	"mainstay.dev/mainstay/internal/apis/custom/schema"
	"mainstay.dev/mainstay/internal/rest"
)

// generationState is the state derived from one generation of a definition, computed on demand. It is
// safe for concurrent use.
type generationState struct {
	// lifetime ends when the generation or the list kind of the definition changes, or the definition is
	// removed. Open watches end with it.
	lifetime context.Context
	// retire ends lifetime and closes the converter.
	retire func()
	// released is closed when waiting requests may continue: see awaitEstablished. It is nil if
	// requests never had to wait.
	released chan struct{}

	mu struct {
		sync.Mutex
		isReleased bool
		// versions contains the versions in use, and schemas the compiled schemas. Both are keyed by version
		// name, and nil if empty.
		versions map[string]*versionResources
		schemas  map[string]*compiled
		// converter is the client of the conversion webhook; nil while it is not in use.
		converter *conversion.Converter
	}
}

// versionResources is a version in use, with its resources keyed by subresource. It is separate from handler to
// avoid a reference cycle with the resources, which would delay garbage collection.
type versionResources struct {
	*handler
	resources map[string]*rest.Resource
}

// compiled is the compiled schema of a version. It is immutable.
type compiled struct {
	*schema.Schema
	rules *rules.Rules
	// preserveUnknown is spec.preserveUnknownFields of an old definition. If it is set, objects are not pruned.
	preserveUnknown bool
}

// newGenerationState returns an empty state, whose lifetime ends no later than ctx. released is true if
// requests need not wait until the definition is established.
func newGenerationState(ctx context.Context, released bool) *generationState {
	lifetime, end := context.WithCancel(ctx)
	g := &generationState{lifetime: lifetime}
	if g.mu.isReleased = released; !released {
		g.released = make(chan struct{})
	}
	g.retire = func() {
		end()
		g.mu.Lock()
		defer g.mu.Unlock()
		g.dropConverterLocked()
	}
	return g
}

// release lets waiting and later requests continue.
func (g *generationState) release() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.mu.isReleased {
		g.mu.isReleased = true
		close(g.released)
	}
}

// awaitEstablished blocks until the Established condition is stored, which usually takes one status write. It
// returns a NotFound error for clients if the definition leaves the phase accepted without being established,
// or an error that wraps ctx.Err(). Clients thus cannot use a resource before the condition is stored, nor find
// it missing afterwards.
func (g *generationState) awaitEstablished(ctx context.Context, s *Source, resource runtimeschema.GroupResource) error {
	if g.released == nil {
		return nil
	}
	select {
	case <-g.released:
	case <-g.lifetime.Done():
	case <-ctx.Done():
		return fmt.Errorf("wait until %s is established: %w", resource, ctx.Err())
	}
	if e := s.current.Load().find(resource.Group, resource.Resource); e == nil || !e.isServed() {
		return notServed()
	}
	return nil
}

// notServed returns kube-apiserver's error for a resource that does not exist.
func notServed() error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusNotFound, Reason: metav1.StatusReasonNotFound,
		Message: "the server could not find the requested resource", Details: &metav1.StatusDetails{},
	}}
}

// resource returns a resource of a version, or nil if the version does not have the subresource. It
// creates the resources of the version if they do not exist, and records their use.
func (s *Source) resource(e *entry, v *entryVersion, subresource string) *rest.Resource {
	g := e.derived
	g.mu.Lock()
	in := g.mu.versions[v.name]
	if in == nil {
		in = newVersionResources(s, e, v)
		if g.mu.versions == nil {
			g.mu.versions = map[string]*versionResources{}
		}
		g.mu.versions[v.name] = in
	}
	g.mu.Unlock()
	in.used.Store(time.Now().UnixNano())
	return in.resources[subresource]
}

// dropUnused drops the versions that have no watch and were not used since the given time. If no version
// remains, it also drops the schemas and the converter.
func (g *generationState) dropUnused(since time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for name, in := range g.mu.versions {
		if in.watches.Load() == 0 && in.used.Load() < since.UnixNano() {
			delete(g.mu.versions, name)
		}
	}
	if len(g.mu.versions) == 0 {
		g.mu.versions, g.mu.schemas = nil, nil
		g.dropConverterLocked()
	}
}

// schema returns the compiled schema of a version of the definition with the given name. On first use, it
// reads the definition and compiles the schema. The result is shared.
func (g *generationState) schema(ctx context.Context, s *Source, name, version string) (*compiled, error) {
	g.mu.Lock()
	existing := g.mu.schemas[version]
	g.mu.Unlock()
	if existing != nil {
		return existing, nil
	}
	record, err := s.readRecord(ctx, name)
	if err != nil {
		return nil, err
	}
	c, err := s.config.Schemas.compiledSchema(record, version, func() (*compiled, error) {
		crd, err := decodeWithout("description", record)
		if err != nil {
			return nil, err
		}
		return compile(crd, version, s.config.Rules)
	})
	if err != nil {
		return nil, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.mu.schemas == nil {
		g.mu.schemas = map[string]*compiled{}
	}
	if existing := g.mu.schemas[version]; existing != nil {
		return existing, nil // a concurrent request compiled it
	}
	g.mu.schemas[version] = c
	return c, nil
}

// versionOf returns a version of a definition, or an error if there is no such version.
func versionOf(crd *apiextensionsv1.CustomResourceDefinition, name string) (*apiextensionsv1.CustomResourceDefinitionVersion, error) {
	for i := range crd.Spec.Versions {
		if crd.Spec.Versions[i].Name == name {
			return &crd.Spec.Versions[i], nil
		}
	}
	return nil, fmt.Errorf("definition %s has no version %s", crd.Name, name)
}

func compile(crd *apiextensionsv1.CustomResourceDefinition, version string, metrics *rules.Metrics) (*compiled, error) {
	v, err := versionOf(crd, version)
	if err != nil {
		return nil, err
	}
	props := &apiextensions.JSONSchemaProps{Type: "object"}
	if v.Schema != nil && v.Schema.OpenAPIV3Schema != nil {
		if props, err = definition.InternalSchema(v.Schema.OpenAPIV3Schema); err != nil {
			return nil, fmt.Errorf("schema of %s in version %s: %w", crd.Name, version, err)
		}
	}
	s, err := schema.Compile(props)
	if err != nil {
		return nil, fmt.Errorf("compile the schema of %s in version %s: %w", crd.Name, version, err)
	}
	s.PruneDefaults()
	return &compiled{Schema: s, rules: rules.New(props, true).WithMetrics(metrics), preserveUnknown: crd.Spec.PreserveUnknownFields}, nil
}

// complete prunes a stored document and sets its defaults.
func (c *compiled) complete(doc map[string]any) {
	if c.preserveUnknown {
		c.SetDefaults(doc)
		return
	}
	c.Complete(doc)
}
