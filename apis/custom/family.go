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

	"mainstay.dev/mainstay/apis/custom/conversion"
	"mainstay.dev/mainstay/apis/custom/definition"
	"mainstay.dev/mainstay/apis/custom/rules"
	"mainstay.dev/mainstay/apis/custom/schema"
	"mainstay.dev/mainstay/rest"
)

// family is what use has made of one generation of a definition.
type family struct {
	// life ends when the definition changes or goes, and with it open watches.
	life   context.Context
	retire func()
	// concluded is closed once it is stored whether the definition is established,
	// or it is being deleted. It is nil where that was so from the start.
	concluded chan struct{}

	mu struct {
		sync.Mutex
		isConcluded bool
		// serving are the versions in use; schemas those compiled. Both are nil
		// while nothing is.
		serving map[string]*serving
		schemas map[string]*compiled
		// converter is the webhook's, nil while it is not in use.
		converter *conversion.Converter
	}
}

// serving is a version in use, with its resources by subresource. It stands
// apart from served so that nothing that resources refer to refers to them.
type serving struct {
	*served
	resources map[string]*rest.Resource
}

// compiled is the schema of a version.
type compiled struct {
	*schema.Schema
	rules *rules.Rules
	// keepUnknown: the definition is an old one, without pruning.
	keepUnknown bool
}

func newFamily(concluded bool) *family {
	life, end := context.WithCancel(context.Background())
	f := &family{life: life}
	if f.mu.isConcluded = concluded; !concluded {
		f.concluded = make(chan struct{})
	}
	f.retire = func() {
		end()
		f.mu.Lock()
		defer f.mu.Unlock()
		f.dropConverterLocked()
	}
	return f
}

// conclude lets requests go on that wait for the definition to be established.
func (f *family) conclude() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.mu.isConcluded {
		f.mu.isConcluded = true
		close(f.concluded)
	}
}

// awaitConcluded waits until it is stored that the definition is established. It
// returns a NotFound error where the definition turns out not to be served. The
// wait is that for one write of a status; with it, clients find no resource before
// the condition, and no condition before the resource.
func (f *family) awaitConcluded(ctx context.Context, s *Source, resource runtimeschema.GroupResource) error {
	if f.concluded == nil {
		return nil
	}
	select {
	case <-f.concluded:
		return nil
	default:
	}
	select {
	case <-f.concluded:
	case <-f.life.Done():
	case <-ctx.Done():
		return fmt.Errorf("wait until %s is established: %w", resource, ctx.Err())
	}
	if e := s.current.Load().find(resource.Group, resource.Resource); e == nil || !e.isServed() {
		return notServed()
	}
	return nil
}

// notServed is what clients get for a resource that is not there.
func notServed() error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusNotFound, Reason: metav1.StatusReasonNotFound,
		Message: "the server could not find the requested resource", Details: &metav1.StatusDetails{},
	}}
}

// resource returns a resource of a version, which is then in use.
func (s *Source) resource(e *entry, v *entryVersion, subresource string) *rest.Resource {
	f := e.family
	f.mu.Lock()
	in := f.mu.serving[v.name]
	if in == nil {
		in = newServing(s, e, v)
		if f.mu.serving == nil {
			f.mu.serving = map[string]*serving{}
		}
		f.mu.serving[v.name] = in
	}
	f.mu.Unlock()
	in.used.Store(time.Now().UnixNano())
	return in.resources[subresource]
}

// forget drops what has not been used since a time.
func (f *family) forget(since time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for name, in := range f.mu.serving {
		if in.watches.Load() == 0 && in.used.Load() < since.UnixNano() {
			delete(f.mu.serving, name)
		}
	}
	if len(f.mu.serving) == 0 {
		f.mu.serving, f.mu.schemas = nil, nil
		f.dropConverterLocked()
	}
}

// schema returns the compiled schema of a version of a definition.
func (f *family) schema(ctx context.Context, s *Source, name, version string) (*compiled, error) {
	f.mu.Lock()
	have := f.mu.schemas[version]
	f.mu.Unlock()
	if have != nil {
		return have, nil
	}
	crd, err := s.read(ctx, name, "description")
	if err != nil {
		return nil, err
	}
	made, err := compile(crd, version)
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.mu.schemas == nil {
		f.mu.schemas = map[string]*compiled{}
	}
	if have := f.mu.schemas[version]; have != nil {
		return have, nil // somebody was faster
	}
	f.mu.schemas[version] = made
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

func compile(crd *apiextensionsv1.CustomResourceDefinition, version string) (*compiled, error) {
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
	return &compiled{Schema: made, rules: rules.New(props, true), keepUnknown: crd.Spec.PreserveUnknownFields}, nil
}

// complete makes a stored document one of the schema.
func (c *compiled) complete(doc map[string]any) {
	if c.keepUnknown {
		c.Fill(doc)
		return
	}
	c.Complete(doc)
}
