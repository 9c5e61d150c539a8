package match

import (
	"maps"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"mainstay.dev/mainstay/internal/admission"
	"mainstay.dev/mainstay/internal/rest"
)

// Matching is an item with a Matcher: a webhook or a policy.
type Matching interface {
	Matcher() *Matcher
}

// Index finds the items whose rules can match a request. It evaluates all items at the first
// request for an operation on a resource, and caches the result. It is safe for concurrent use.
type Index[T Matching] struct {
	all    []T
	found  atomic.Pointer[map[place]candidates[T]]
	adding sync.Mutex
}

// place is the key of the cache: a resource and an operation.
type place struct {
	operation   admission.Operation
	resource    schema.GroupVersionResource
	subresource string
}

// candidates are the items of a place, valid while the served resource is unchanged.
type candidates[T any] struct {
	of   *rest.Resource
	list []T
}

// NewIndex returns an index of all items and retains the slice.
func NewIndex[T Matching](all []T) *Index[T] {
	x := &Index[T]{all: all}
	x.found.Store(&map[place]candidates[T]{})
	return x
}

// All returns everything in the index, which is shared and must not be changed.
func (x *Index[T]) All() []T { return x.all }

// Candidates returns the items whose Matcher must be evaluated for a request, in order. The slice
// is shared and must not be modified.
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

// add computes the candidates of a place. A change of a custom resource's versions, which affects
// equivalence, creates another rest.Resource.
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
