package flowcontrol

import (
	"sync"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/request"
)

// watches counts open watches by their objects, to estimate how many watches a write notifies. The
// zero value is ready to use.
type watches struct {
	mu sync.RWMutex
	of map[schema.GroupResource]map[types.NamespacedName]*watchCount // of all, of a namespace, of one object
}

// watchCount is the watches of one set of objects.
type watchCount struct {
	// whole counts watches of all objects in the set, and watches with selectors that would require
	// an evaluation per change.
	whole int
	// byValue are the others, by the field or label of which they select one value: kubelets'
	// watches of pods select that of spec.nodeName.
	byValue map[string]valueCount
}

// valueCount is watches by the value that they select.
type valueCount struct {
	all int
	of  map[string]int
}

// average returns how many watches select a value that is selected at all, rounded up: which
// value a write is of is not known before its body is read.
func (c valueCount) average() int { return (c.all + len(c.of) - 1) / len(c.of) }

func resourceOf(info *request.Info) schema.GroupResource {
	return schema.GroupResource{Group: info.Group, Resource: info.Resource}
}

// add counts n watches more.
func (w *watches) add(info *request.Info, n int) {
	resource, what := resourceOf(info), types.NamespacedName{Namespace: info.Namespace, Name: info.Name}
	key, value := selectedValue(info)
	w.mu.Lock()
	defer w.mu.Unlock()
	of := w.of[resource]
	if of == nil {
		if w.of == nil {
			w.of = map[schema.GroupResource]map[types.NamespacedName]*watchCount{}
		}
		of = map[types.NamespacedName]*watchCount{}
		w.of[resource] = of
	}
	count := of[what]
	if count == nil {
		count = &watchCount{}
		of[what] = count
	}
	count.add(key, value, n)
	if count.whole == 0 && len(count.byValue) == 0 {
		delete(of, what)
	}
	if len(of) == 0 {
		delete(w.of, resource)
	}
}

// add counts n watches more that select a value of a field or label; all objects, if key is
// empty.
func (c *watchCount) add(key, value string, n int) {
	if key == "" {
		c.whole += n
		return
	}
	if c.byValue == nil {
		c.byValue = map[string]valueCount{}
	}
	v := c.byValue[key]
	if v.of == nil {
		v.of = map[string]int{}
	}
	v.all += n
	v.of[value] += n
	if v.of[value] == 0 {
		delete(v.of, value)
	}
	c.byValue[key] = v
	if len(v.of) == 0 {
		delete(c.byValue, key)
	}
}

// woken returns how many of the watches a write may concern.
func (c *watchCount) woken() int {
	if c == nil {
		return 0
	}
	n := c.whole
	for _, v := range c.byValue {
		n += v.average()
	}
	return n
}

// selectedValue returns the field or label for which a watch selects one value, or "" if there is
// none or it is the object's name.
func selectedValue(info *request.Info) (key, value string) {
	if info.Name != "" {
		return "", ""
	}
	if info.FieldSelector != "" {
		if s, err := fields.ParseSelector(info.FieldSelector); err == nil {
			for _, r := range s.Requirements() {
				if r.Operator == selection.Equals || r.Operator == selection.DoubleEquals {
					return r.Field, r.Value
				}
			}
		}
	}
	if info.LabelSelector != "" {
		if s, err := labels.Parse(info.LabelSelector); err == nil {
			return codec.RequiredLabel(s)
		}
	}
	return "", ""
}

// woken returns how many watches a write may concern.
func (w *watches) woken(info *request.Info) int {
	w.mu.RLock()
	defer w.mu.RUnlock()
	of := w.of[resourceOf(info)]
	if of == nil {
		return 0
	}
	n := of[types.NamespacedName{}].woken()
	if info.Namespace != "" {
		n += of[types.NamespacedName{Namespace: info.Namespace}].woken()
	}
	if info.Name != "" {
		n += of[types.NamespacedName{Namespace: info.Namespace, Name: info.Name}].woken()
	}
	return n
}
