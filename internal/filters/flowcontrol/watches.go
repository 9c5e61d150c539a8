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

// watches counts open watches by the set of objects that they select, to estimate the number of
// watches that a write notifies. The zero value is ready to use. It is safe for concurrent use.
type watches struct {
	mu         sync.RWMutex
	byResource map[schema.GroupResource]map[types.NamespacedName]*watchCount // the name selects all objects, a namespace, or one object
}

// watchCount contains the numbers of watches of one set of objects.
type watchCount struct {
	// whole is the number of watches that select the whole set, including watches with selectors
	// that would require an evaluation for each change.
	whole int
	// byValue contains the numbers of watches that select one value of a field or label, by name of
	// the field or label. For example, kubelets' watches of pods select a value of spec.nodeName.
	byValue map[string]valueCount
}

// valueCount contains the numbers of watches by selected value.
type valueCount struct {
	all     int
	byValue map[string]int
}

// average returns the average number of watches per selected value, rounded up. The estimate uses
// the average because the value of a written object is unknown before its body is read.
func (c valueCount) average() int { return (c.all + len(c.byValue) - 1) / len(c.byValue) }

func resourceOf(info *request.Info) schema.GroupResource {
	return schema.GroupResource{Group: info.Group, Resource: info.Resource}
}

// add adds n, which may be negative, to the number of watches that select the same objects as info.
func (w *watches) add(info *request.Info, n int) {
	resource, set := resourceOf(info), types.NamespacedName{Namespace: info.Namespace, Name: info.Name}
	key, value := selectedValue(info)
	w.mu.Lock()
	defer w.mu.Unlock()
	of := w.byResource[resource]
	if of == nil {
		if w.byResource == nil {
			w.byResource = map[schema.GroupResource]map[types.NamespacedName]*watchCount{}
		}
		of = map[types.NamespacedName]*watchCount{}
		w.byResource[resource] = of
	}
	count := of[set]
	if count == nil {
		count = &watchCount{}
		of[set] = count
	}
	count.add(key, value, n)
	if count.whole == 0 && len(count.byValue) == 0 {
		delete(of, set)
	}
	if len(of) == 0 {
		delete(w.byResource, resource)
	}
}

// add adds n to the number of watches that select a value of a field or label, or the whole set if
// key is empty.
func (c *watchCount) add(key, value string, n int) {
	if key == "" {
		c.whole += n
		return
	}
	if c.byValue == nil {
		c.byValue = map[string]valueCount{}
	}
	v := c.byValue[key]
	if v.byValue == nil {
		v.byValue = map[string]int{}
	}
	v.all += n
	v.byValue[value] += n
	if v.byValue[value] == 0 {
		delete(v.byValue, value)
	}
	c.byValue[key] = v
	if len(v.byValue) == 0 {
		delete(c.byValue, key)
	}
}

// notified returns the estimated number of watches that a write to the set notifies.
func (c *watchCount) notified() int {
	if c == nil {
		return 0
	}
	n := c.whole
	for _, v := range c.byValue {
		n += v.average()
	}
	return n
}

// selectedValue returns the field or label for which a watch selects one value. key is "" if there
// is no such field or label, or if the watch selects an object by name.
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

// notified returns the estimated number of watches that a write notifies.
func (w *watches) notified(info *request.Info) int {
	w.mu.RLock()
	defer w.mu.RUnlock()
	of := w.byResource[resourceOf(info)]
	if of == nil {
		return 0
	}
	n := of[types.NamespacedName{}].notified()
	if info.Namespace != "" {
		n += of[types.NamespacedName{Namespace: info.Namespace}].notified()
	}
	if info.Name != "" {
		n += of[types.NamespacedName{Namespace: info.Namespace, Name: info.Name}].notified()
	}
	return n
}
