package match

import (
	"maps"
	"sync"
	"sync/atomic"
	"weak"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"mainstay.dev/mainstay/internal/admission"
	"mainstay.dev/mainstay/internal/rest"
)

// Matchable is an item with a Matcher, such as a webhook or a policy.
type Matchable interface {
	Matcher() *Matcher
}

// Index finds the items whose rules may match a request. The first request for an operation on a resource
// evaluates the rules of all items and caches the result. Index is safe for concurrent use.
type Index[T Matchable] struct {
	all   []T
	cache atomic.Pointer[map[cacheKey]candidates[T]]
	mu    sync.Mutex
}

type cacheKey struct {
	operation   admission.Operation
	resource    schema.GroupVersionResource
	subresource string
}

// candidates are the items that may match the requests of a cache key. They are valid while resource is the
// resource that is served. The pointer is weak, because the rest.Resource of a custom resource refers to
// compiled schemas, which must be garbage-collected when they are no longer used.
type candidates[T any] struct {
	resource weak.Pointer[rest.Resource]
	items    []T
}

// NewIndex returns an index of the items. It retains the slice, which must not be modified
// afterwards.
func NewIndex[T Matchable](all []T) *Index[T] {
	x := &Index[T]{all: all}
	x.cache.Store(&map[cacheKey]candidates[T]{})
	return x
}

// All returns all items. The slice is shared and must not be modified.
func (x *Index[T]) All() []T { return x.all }

// Candidates returns the items whose Matcher must be evaluated for a request, in order. The slice
// is shared and must not be modified.
func (x *Index[T]) Candidates(r *admission.Request) []T {
	if len(x.all) == 0 {
		return nil
	}
	key := cacheKey{r.Operation, r.Resource.GVR(), r.Resource.Subresource}
	if cached, ok := (*x.cache.Load())[key]; ok && cached.resource.Value() == r.Resource {
		return cached.items
	}
	return x.add(key, r)
}

// add computes and caches the candidates. If the versions of a custom resource change, which affects
// equivalence, a new rest.Resource is created, and the cache entry becomes invalid.
func (x *Index[T]) add(key cacheKey, r *admission.Request) []T {
	var list []T
	for _, item := range x.all {
		if item.Matcher().mayMatch(r) {
			list = append(list, item)
		}
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	cache := maps.Clone(*x.cache.Load())
	maps.DeleteFunc(cache, func(_ cacheKey, c candidates[T]) bool { return c.resource.Value() == nil })
	cache[key] = candidates[T]{weak.Make(r.Resource), list}
	x.cache.Store(&cache)
	return list
}
