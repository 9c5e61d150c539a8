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

// generationState is the derived state of one generation of a definition, created on demand.
type generationState struct {
	// life ends with the generation, and ends its open watches.
	life   context.Context
	retire func()
	// ready is closed once it is stored whether the definition is established,
	// or it is being deleted. It is nil where that was so from the start.
	ready chan struct{}

	mu struct {
		sync.Mutex
		isReady bool
		// versions are the versions in use, schemas the compiled ones. Both are nil if empty.
		versions map[string]*versionResources
		schemas  map[string]*compiled
		// converter is the webhook's, nil while it is not in use.
		converter *conversion.Converter
	}
}

// versionResources is a version in use, with its resources by subresource. It is separate from
// handler to avoid a reference cycle with the resources.
type versionResources struct {
	*handler
	resources map[string]*rest.Resource
}

// compiled is the schema of a version.
type compiled struct {
	*schema.Schema
	rules *rules.Rules
	// keepUnknown: the definition is an old one, without pruning.
	keepUnknown bool
}

func newGenerationState(lifetime context.Context, ready bool) *generationState {
	life, end := context.WithCancel(lifetime)
	g := &generationState{life: life}
	if g.mu.isReady = ready; !ready {
		g.ready = make(chan struct{})
	}
	g.retire = func() {
		end()
		g.mu.Lock()
		defer g.mu.Unlock()
		g.dropConverterLocked()
	}
	return g
}

// markReady releases the requests that wait for the definition to be established.
func (g *generationState) markReady() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.mu.isReady {
		g.mu.isReady = true
		close(g.ready)
	}
}

// awaitReady waits until it is stored that the definition is established. It
// returns a NotFound error where the definition turns out not to be served. The
// wait is that for one write of a status; with it, clients find no resource before
// the condition, and no condition before the resource.
func (g *generationState) awaitReady(ctx context.Context, s *Source, resource runtimeschema.GroupResource) error {
	if g.ready == nil {
		return nil
	}
	select {
	case <-g.ready:
	case <-g.life.Done():
	case <-ctx.Done():
		return fmt.Errorf("wait until %s is established: %w", resource, ctx.Err())
	}
	if e := s.current.Load().find(resource.Group, resource.Resource); e == nil || !e.isServed() {
		return notServed()
	}
	return nil
}

// notServed returns the error for a resource that is not served.
func notServed() error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusNotFound, Reason: metav1.StatusReasonNotFound,
		Message: "the server could not find the requested resource", Details: &metav1.StatusDetails{},
	}}
}

// resource returns a resource of a version, which is then in use.
func (s *Source) resource(e *entry, v *entryVersion, subresource string) *rest.Resource {
	g := e.state
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

// forget drops state that was not used since a time.
func (g *generationState) forget(since time.Time) {
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

// schema returns the compiled schema of a version of a definition.
func (g *generationState) schema(ctx context.Context, s *Source, name, version string) (*compiled, error) {
	g.mu.Lock()
	have := g.mu.schemas[version]
	g.mu.Unlock()
	if have != nil {
		return have, nil
	}
	crd, err := s.read(ctx, name, "description")
	if err != nil {
		return nil, err
	}
	made, err := compile(crd, version, s.config.Rules)
	if err != nil {
		return nil, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.mu.schemas == nil {
		g.mu.schemas = map[string]*compiled{}
	}
	if have := g.mu.schemas[version]; have != nil {
		return have, nil // another request was faster
	}
	g.mu.schemas[version] = made
	return made, nil
}

// versionOf finds a version in a definition.
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
	made, err := schema.Compile(props)
	if err != nil {
		return nil, fmt.Errorf("compile the schema of %s in version %s: %w", crd.Name, version, err)
	}
	made.PruneDefaults()
	return &compiled{Schema: made, rules: rules.New(props, true).Measured(metrics), keepUnknown: crd.Spec.PreserveUnknownFields}, nil
}

// complete makes a stored document one of the schema.
func (c *compiled) complete(doc map[string]any) {
	if c.keepUnknown {
		c.Fill(doc)
		return
	}
	c.Complete(doc)
}
