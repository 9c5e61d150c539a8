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
	// Options are the options of the operation, which may differ from the client's verb: a patch
	// has *metav1.UpdateOptions or, if it creates the object, *metav1.CreateOptions. nil for
	// Connect.
	Options runtime.Object
	// Resource is the requested resource or subresource, in the version of the request. Its Kind
	// contains all versions.
	Resource  *rest.Resource
	Namespace string
	// Name is the name of the object. It is empty for the deletion of a collection, and for a
	// creation with a generated name until the validating pass.
	Name   string
	DryRun bool
	// User is the user of the request, after impersonation. It is shared and must not be modified.
	User *request.User
	// EquivalentsOf returns all resources of the same objects, in other versions and groups,
	// including the resource itself; nil if there are no others.
	EquivalentsOf func(*rest.Resource) []*rest.Resource
	// Explanation records the effects of each plugin; nil disables it.
	Explanation *Explanation
	// Lookups caches lookups of the mutating pass for the validating pass; nil disables the cache.
	Lookups *Lookups
	// Metrics records the latency of plugins; nil disables it.
	Metrics *Metrics
}

// Lookups contains the last lookup of a plugin for a request. The zero value is empty. It is not safe
// for concurrent use.
type Lookups struct {
	plugin string
	value  any
}

// StoreLookup stores the result of a lookup in the mutating pass for the validating pass. A request has one
// entry, so the value replaces an earlier value, including the value of another plugin. It has no effect if
// r.Lookups is nil.
func (r *Request) StoreLookup(plugin Plugin, value any) {
	if r.Lookups != nil {
		*r.Lookups = Lookups{plugin.Name(), value}
	}
}

// StoredLookup returns the value of the last call of StoreLookup, or nil if there is none or if another
// plugin stored it.
func (r *Request) StoredLookup(plugin Plugin) any {
	if r.Lookups == nil || r.Lookups.plugin != plugin.Name() {
		return nil
	}
	return r.Lookups.value
}

// Kind returns the kind of the object in the request. The kind of a subresource can differ from the
// kind of its resource (a Scale, a Binding).
func (r *Request) Kind() schema.GroupVersionKind { return r.Resource.Version.GVK }

// Equivalents returns the resources with the same objects, including the requested one: for example
// events of the core group and of events.k8s.io. A rule for one of them applies to all; ObjectIn
// converts the object. The caller owns the slice.
func (r *Request) Equivalents() []*rest.Resource {
	if r.EquivalentsOf != nil {
		if all := r.EquivalentsOf(r.Resource); len(all) > 0 {
			return all
		}
	}
	return []*rest.Resource{r.Resource}
}

// Attributes describe a request in one of the two passes of admission. Except for Annotate and
// StartDecision, the methods are not safe for concurrent use.
type Attributes struct {
	Request
	// Object is the new object in the hub version, a codec.Object. For Connect, it contains the
	// options of the connection; for deletions, it is nil. A Mutator may modify or replace it.
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

// InvalidateConversions drops the cached conversions of Object. A plugin calls it after it has
// modified Object, before its next ObjectIn. Replaced objects and modifications by other plugins are
// detected automatically.
func (a *Attributes) InvalidateConversions() { a.objects = versions{} }

// Reinvoke requests a second mutating pass. A plugin calls it after it has modified a part of the object that
// earlier plugins may process. In the second pass, it has no effect.
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
// such as "pod-security.kubernetes.io/enforce". It returns an error for an invalid key, for a second,
// different value of a key (request.ErrAnnotated), and if the event is full (request.ErrAnnotationsFull). If
// a request is retried after a conflict, the values of the first attempt stay. It is safe for concurrent use.
func (a *Attributes) Annotate(ctx context.Context, key, value string) error {
	if problems := keyProblems(key); strings.Count(key, "/") != 1 || len(problems) > 0 {
		return fmt.Errorf("audit annotation %q: the key must be a DNS subdomain, a slash and a name%s", key, strings.Join(append([]string{""}, problems...), "; "))
	}
	a.annotations.Lock()
	defer a.annotations.Unlock()
	if old, ok := a.annotations.values[key]; ok && old != value {
		return fmt.Errorf("audit annotation %s with %q: %w: %q", key, value, request.ErrAnnotated, old)
	}
	// Another pass or attempt may have recorded a different value, which stays.
	if err := request.Annotate(ctx, key, value); err != nil && !errors.Is(err, request.ErrAnnotated) {
		return err
	}
	if a.annotations.values == nil {
		a.annotations.values = make(map[string]string)
	}
	a.annotations.values[key] = value
	return nil
}

// RecordMutator records the name of a webhook or policy that changed the object. If the object is
// invalid afterwards, a warning of the response lists these names.
func (a *Attributes) RecordMutator(name string) {
	if !slices.Contains(a.mutators, name) {
		a.mutators = append(a.mutators, name)
	}
}

// Mutators returns the names that RecordMutator recorded, in order. The slice is shared and must not
// be modified.
func (a *Attributes) Mutators() []string { return a.mutators }

// keyProblems returns the errors of a key. The fast path accepts the plain keys that most plugins use; other
// keys are checked with regular expressions.
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
