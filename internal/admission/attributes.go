package admission

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/request"
	"mainstay.dev/mainstay/internal/rest"
)

// Request contains the attributes of a request that do not depend on the object. Plugins must not
// modify it.
type Request struct {
	Operation Operation
	// Options are the options of the operation, or nil for Connect. Their type may differ from the client's
	// verb: a patch has *metav1.UpdateOptions or, if it creates the object, *metav1.CreateOptions.
	Options runtime.Object
	// Resource is the requested resource or subresource, in the version of the request. Resource.Kind contains
	// all versions.
	Resource  *rest.Resource
	Namespace string
	// Name is the name of the object. It is empty if a collection is deleted. If the name of a new object is
	// generated, Name is empty until the validating pass.
	Name   string
	DryRun bool
	// User is the user of the request, after impersonation. The user is shared and must not be modified.
	User *request.User
	// EquivalentsOf returns all resources that contain the same objects in other versions or groups, including
	// the resource itself. It returns nil if there are no other resources.
	EquivalentsOf func(*rest.Resource) []*rest.Resource
	// Explanation records the effects of each plugin; nil disables it.
	Explanation *Explanation
	// Lookups passes a lookup of the mutating pass to the validating pass; nil disables it.
	Lookups *Lookups
	// Metrics records the latency of plugins; nil disables it.
	Metrics *Metrics
}

// Lookups contains the last lookup that a plugin stored for a request. The zero value is empty. It is not safe
// for concurrent use.
type Lookups struct {
	plugin string
	value  any
}

// StoreLookup stores the result of a lookup in the mutating pass for the validating pass. A request stores only
// one value: each call replaces the earlier value, even that of another plugin. StoreLookup has no effect if
// r.Lookups is nil.
func (r *Request) StoreLookup(plugin Plugin, value any) {
	if r.Lookups != nil {
		*r.Lookups = Lookups{plugin.Name(), value}
	}
}

// StoredLookup returns the value of the last call of StoreLookup. It returns nil if there was no call or if
// another plugin stored the value.
func (r *Request) StoredLookup(plugin Plugin) any {
	if r.Lookups == nil || r.Lookups.plugin != plugin.Name() {
		return nil
	}
	return r.Lookups.value
}

// Kind returns the kind of the object in the request. The kind of a subresource can differ from the
// kind of its resource (a Scale, a Binding).
func (r *Request) Kind() schema.GroupVersionKind { return r.Resource.Version.GVK }

// Equivalents returns the resources that contain the same objects, including the requested one. For example,
// events belong to both the core group and events.k8s.io. A rule for one of these resources applies to all;
// ObjectIn converts the object. The caller owns the slice.
func (r *Request) Equivalents() []*rest.Resource {
	if r.EquivalentsOf != nil {
		if all := r.EquivalentsOf(r.Resource); len(all) > 0 {
			return all
		}
	}
	return []*rest.Resource{r.Resource}
}

// Attributes describes a request in one of the two passes of admission. Except for Annotate and StartDecision,
// the methods are not safe for concurrent use.
type Attributes struct {
	Request
	// Object is the new object in the hub version, a codec.Object. For Connect, it contains the connect
	// options; for deletions, it is nil. A Mutator may modify or replace it.
	Object runtime.Object
	// Old is the current object in the hub version, or nil for creations and connections. It is
	// shared and must not be modified.
	Old codec.Object

	reinvoke, reinvoked bool
	state               map[string]any // by plugin
	mutators            []string
	// objects and olds cache the conversions of Object and Old.
	objects, olds versions
	annotations   struct {
		sync.Mutex
		values map[string]string
	}
}

// InvalidateConversions drops the cached conversions of Object. A plugin that modifies Object in place must
// call it before its own next call of ObjectIn. Replaced objects and modifications by other plugins are
// detected automatically.
func (a *Attributes) InvalidateConversions() { a.objects = versions{} }

// Reinvoke requests a second mutating pass. A plugin calls it after it has modified a part of the object that
// earlier plugins may process. Reinvoke has no effect in the second pass.
func (a *Attributes) Reinvoke() { a.reinvoke = true }

// Reinvoked reports whether this is the second mutating pass.
func (a *Attributes) Reinvoked() bool { return a.reinvoked }

// SetState stores a value for the second mutating pass. Each plugin has one value; a later call
// replaces it. The value is not copied.
func (a *Attributes) SetState(plugin Plugin, value any) {
	if a.state == nil {
		a.state = make(map[string]any)
	}
	a.state[plugin.Name()] = value
}

// State returns the value that the plugin stored with SetState, or nil.
func (a *Attributes) State(plugin Plugin) any { return a.state[plugin.Name()] }

// Annotate adds an annotation to the request's audit event. The key is a DNS subdomain, a slash and a name,
// such as "pod-security.kubernetes.io/enforce". Annotate returns an error if the key is invalid, if it already
// has a different value (request.ErrAnnotated), or if the event is full (request.ErrAnnotationsFull). If a
// request is retried after a conflict, the values of the first attempt are kept. It is safe for concurrent use.
func (a *Attributes) Annotate(ctx context.Context, key, value string) error {
	if problems := keyProblems(key); strings.Count(key, "/") != 1 || len(problems) > 0 {
		return fmt.Errorf("audit annotation %q: the key must be a DNS subdomain, a slash and a name%s", key, strings.Join(append([]string{""}, problems...), "; "))
	}
	a.annotations.Lock()
	defer a.annotations.Unlock()
	if old, ok := a.annotations.values[key]; ok && old != value {
		return fmt.Errorf("audit annotation %s with %q: %w: %q", key, value, request.ErrAnnotated, old)
	}
	// Another pass or attempt may have recorded a different value, which is kept.
	if err := request.Annotate(ctx, key, value); err != nil && !errors.Is(err, request.ErrAnnotated) {
		return err
	}
	if a.annotations.values == nil {
		a.annotations.values = make(map[string]string)
	}
	a.annotations.values[key] = value
	return nil
}

// RecordMutator records the name of a webhook or policy that changed the object. If the object is invalid
// afterwards, the response contains a warning with these names.
func (a *Attributes) RecordMutator(name string) {
	if !slices.Contains(a.mutators, name) {
		a.mutators = append(a.mutators, name)
	}
}

// Mutators returns the names that RecordMutator recorded, in order. The slice is shared and must not
// be modified.
func (a *Attributes) Mutators() []string { return a.mutators }

// keyProblems returns the reasons why a key is invalid. The fast path accepts the plain keys that most plugins
// use; other keys are checked with regular expressions.
func keyProblems(key string) []string {
	domain, name, _ := strings.Cut(key, "/")
	if len(domain) > 0 && len(domain) <= validation.DNS1123SubdomainMaxLength && len(name) > 0 && len(name) <= validation.LabelValueMaxLength && isPlain(domain) && isPlain(name) {
		return nil
	}
	return validation.IsQualifiedName(key)
}

// isPlain reports whether text consists of lower case letters and digits that are separated by
// single dots or dashes.
func isPlain(text string) bool {
	separated := true // after a separator or at the start
	for i := range len(text) {
		switch c := text[i]; {
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9':
			separated = false
		case (c == '.' || c == '-') && !separated:
			separated = true
		default:
			return false
		}
	}
	return !separated
}
