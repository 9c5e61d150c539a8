package flowcontrol

import (
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/request"
)

// watches counts open watches by what they are of, so that it is known how many a write
// wakes. Selectors are left out: they have to be evaluated for each change. The zero
// value is ready.
type watches struct {
	mu sync.RWMutex
	of map[schema.GroupResource]map[types.NamespacedName]int // of all, of a namespace, of one object
}

func resourceOf(info *request.Info) schema.GroupResource {
	return schema.GroupResource{Group: info.Group, Resource: info.Resource}
}

// add counts n watches more.
func (w *watches) add(info *request.Info, n int) {
	resource, what := resourceOf(info), types.NamespacedName{Namespace: info.Namespace, Name: info.Name}
	w.mu.Lock()
	defer w.mu.Unlock()
	of := w.of[resource]
	if of == nil {
		if w.of == nil {
			w.of = map[schema.GroupResource]map[types.NamespacedName]int{}
		}
		of = map[types.NamespacedName]int{}
		w.of[resource] = of
	}
	of[what] += n
	if of[what] == 0 {
		delete(of, what)
	}
	if len(of) == 0 {
		delete(w.of, resource)
	}
}

// woken returns how many watches a write may concern.
func (w *watches) woken(info *request.Info) int {
	w.mu.RLock()
	defer w.mu.RUnlock()
	of := w.of[resourceOf(info)]
	if of == nil {
		return 0
	}
	n := of[types.NamespacedName{}]
	if info.Namespace != "" {
		n += of[types.NamespacedName{Namespace: info.Namespace}]
	}
	if info.Name != "" {
		n += of[types.NamespacedName{Namespace: info.Namespace, Name: info.Name}]
	}
	return n
}
