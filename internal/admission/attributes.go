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

// Request is what is known of a request before an object is at hand. Plugins must
// not change it.
type Request struct {
	Operation Operation
	// Options are those of the operation, which may be another one than the
	// client's verb names: a patch has *metav1.UpdateOptions, or, where it
	// creates, *metav1.CreateOptions. nil for Connect.
	Options runtime.Object
	// Resource is the resource or subresource as requested: in the version of the
	// request, with its Kind and all versions of that.
	Resource  *rest.Resource
	Namespace string
	// Name may be empty on creation, when it is generated, and is for the deletion
	// of a collection.
	Name   string
	DryRun bool
	User   *request.User
	// EquivalentsOf finds the resources that are another way to the same objects,
	// in other versions and groups, and the resource itself; nil: there are none.
	EquivalentsOf func(*rest.Resource) []*rest.Resource
	// Explanation receives what each plugin does; nil: nobody asks.
	Explanation *Explanation
	// Lookups is what plugins have read in the mutating pass, for the validating one; nil:
	// they read again.
	Lookups *Lookups
	// Metrics records how long plugins take; nil: nothing does.
	Metrics *Metrics
}

// Lookups are what plugins have read for a request. They are used by one goroutine.
type Lookups struct {
	plugin string
	value  any
}

// HandOn keeps what a plugin has read in the mutating pass of a request. Of two plugins
// the last one counts.
func (r *Request) HandOn(plugin Plugin, value any) {
	if r.Lookups != nil {
		*r.Lookups = Lookups{plugin.Name(), value}
	}
}

// Handed returns what a plugin has handed on, nil for nothing.
func (r *Request) Handed(plugin Plugin) any {
	if r.Lookups == nil || r.Lookups.plugin != plugin.Name() {
		return nil
	}
	return r.Lookups.value
}

// Kind is the kind as requested: that of the body, which a subresource may have of
// its own (a Scale, a Binding).
func (r *Request) Kind() schema.GroupVersionKind { return r.Resource.Version.GVK }

// Equivalents returns the resources by which the same objects are served, the
// requested one among them: events of the core group and those of
// events.k8s.io, say. A rule that names one of them is a rule about all;
// ObjectIn gives what it is to see. The slice is the caller's.
func (r *Request) Equivalents() []*rest.Resource {
	if r.EquivalentsOf != nil {
		if all := r.EquivalentsOf(r.Resource); len(all) > 0 {
			return all
		}
	}
	return []*rest.Resource{r.Resource}
}

// Attributes describe a request in one of the two passes of admission. They are
// used by one goroutine, but for Annotate.
type Attributes struct {
	Request
	// Object is the new object in the hub version, a codec.Object; for Connect,
	// the options of the connection; nil for deletions. A Mutator may change it,
	// or put another one in its place.
	Object runtime.Object
	// Old is the current object in the hub version, nil for creations and
	// connections. It is shared and must not be changed.
	Old codec.Object

	reinvoke, reinvoked bool
	memory              map[string]any
	changers            []string
	// objects and olds are Object and Old in other versions.
	objects, olds versions
	annotations   struct {
		sync.Mutex
		values map[string]string
	}
}

// Changed has ObjectIn convert anew: a plugin calls it between a change within
// Object and its own next ObjectIn. What a plugin has replaced, and what another
// plugin did, is taken up without.
func (a *Attributes) Changed() { a.objects = versions{} }

// Reinvoke asks for the whole mutating pass to run once more when it is through,
// because the plugin has changed what plugins before it may want to see. In the
// second pass it does nothing.
func (a *Attributes) Reinvoke() { a.reinvoke = true }

// Reinvoked reports whether this is the second time.
func (a *Attributes) Reinvoked() bool { return a.reinvoked }

// Remember keeps a value of a plugin for its second time.
func (a *Attributes) Remember(plugin Plugin, value any) {
	if a.memory == nil {
		a.memory = make(map[string]any)
	}
	a.memory[plugin.Name()] = value
}

// Remembered returns what a plugin has kept, nil where that is nothing.
func (a *Attributes) Remembered(plugin Plugin) any { return a.memory[plugin.Name()] }

// Annotate adds an annotation to the request's audit event. Its key is a DNS
// subdomain, a slash and a name, as in "pod-security.kubernetes.io/enforce". A
// second value for a key is an error. A request that is tried again (another
// write was first) keeps in the event what came of the first try. It is safe for
// concurrent use.
func (a *Attributes) Annotate(ctx context.Context, key, value string) error {
	if problems := keyProblems(key); strings.Count(key, "/") != 1 || len(problems) > 0 {
		return fmt.Errorf("audit annotation %q: the key must be a DNS subdomain, a slash and a name%s", key, strings.Join(append([]string{""}, problems...), "; "))
	}
	a.annotations.Lock()
	defer a.annotations.Unlock()
	if there, ok := a.annotations.values[key]; ok && there != value {
		return fmt.Errorf("audit annotation %s with %q: %w: %q", key, value, request.ErrAnnotated, there)
	}
	// Another pass of the request, or an earlier try, may have said otherwise: the
	// first word stays.
	if err := request.Annotate(ctx, key, value); err != nil && !errors.Is(err, request.ErrAnnotated) {
		return err
	}
	if a.annotations.values == nil {
		a.annotations.values = make(map[string]string)
	}
	a.annotations.values[key] = value
	return nil
}

// ChangedBy records the name of a webhook or policy that changed the object. If the object
// turns out to be invalid, a warning of the response lists these names.
func (a *Attributes) ChangedBy(whom string) {
	if !slices.Contains(a.changers, whom) {
		a.changers = append(a.changers, whom)
	}
}

// Changers returns the names that ChangedBy recorded, in order.
func (a *Attributes) Changers() []string { return a.changers }

// keyProblems returns what is wrong with a key. Keys of plugins are plain, and looked at
// for each request: the regular expressions are for the others.
func keyProblems(key string) []string {
	domain, name, _ := strings.Cut(key, "/")
	if len(domain) > 0 && len(domain) <= validation.DNS1123SubdomainMaxLength && len(name) > 0 && len(name) <= validation.LabelValueMaxLength && isPlain(domain) && isPlain(name) {
		return nil
	}
	return validation.IsQualifiedName(key)
}

// isPlain reports whether a text is made of lower case letters and digits, with single
// dots and dashes between them.
func isPlain(text string) bool {
	separated := true // a separator, or nothing, was before
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
