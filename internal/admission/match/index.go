package match

import (
	"maps"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"mainstay.dev/mainstay/internal/admission"
	"mainstay.dev/mainstay/internal/rest"
)

// Matching is what has a matcher: a webhook, a policy.
type Matching interface {
	Matcher() *Matcher
}

// Index finds, among many, those whose rules can mean a request. It looks at all
// of them the first time that an operation on a resource is asked for, and
// remembers which those were. It is safe for concurrent use.
type Index[T Matching] struct {
	all    []T
	found  atomic.Pointer[map[place]candidates[T]]
	adding sync.Mutex
}

// place is what all requests for a resource with an operation share.
type place struct {
	operation   admission.Operation
	resource    schema.GroupVersionResource
	subresource string
}

// candidates are those of a place, as long as the resource is served as it was.
type candidates[T any] struct {
	of   *rest.Resource
	list []T
}

// NewIndex returns an index of all, which it keeps.
func NewIndex[T Matching](all []T) *Index[T] {
	x := &Index[T]{all: all}
	x.found.Store(&map[place]candidates[T]{})
	return x
}

// All returns everything in the index, which is shared and must not be changed.
func (x *Index[T]) All() []T { return x.all }

// Candidates returns those whose Matcher is to be asked about a request, in their
// order. They are shared and must not be changed.
func (x *Index[T]) Candidates(r *admission.Request) []T {
	if len(x.all) == 0 {
		return nil
	}
	at := place{r.Operation, r.Resource.GVR(), r.Resource.Subresource}
	if known, ok := (*x.found.Load())[at]; ok && known.of == r.Resource {
		return known.list
	}
	return x.add(at, r)
}

// add finds the candidates of a place. That a custom resource gains or loses a
// version, which changes what is equivalent, makes another rest.Resource of it.
func (x *Index[T]) add(at place, r *admission.Request) []T {
	var list []T
	for _, one := range x.all {
		if one.Matcher().mayMatch(r) {
			list = append(list, one)
		}
	}
	x.adding.Lock()
	defer x.adding.Unlock()
	found := maps.Clone(*x.found.Load())
	found[at] = candidates[T]{r.Resource, list}
	x.found.Store(&found)
	return list
}
