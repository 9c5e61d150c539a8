package ownership

import (
	"reflect"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"mainstay.dev/mainstay/internal/codec"
)

// Update records in obj that manager replaced live with obj. live is empty for a new object. In unsupported
// cases, Update returns false and changes nothing. It modifies only the managed fields of obj, whose new
// value shares no memory with other objects except times.
func (k *Kind) Update(live, obj codec.Object, manager string) bool {
	if !k.supports(live) || !k.supports(obj) || !isASCII(manager) {
		return false
	}
	entries, err := k.entriesOf(live, obj)
	if err != nil {
		return false
	}
	restore := hideManaged(obj)
	if len(entries) == 0 && live.GetUID() != "" {
		return true // the object never had managed fields
	}
	w := k.workspace()
	defer k.releaseWorkspace(w)
	if entries, err = k.update(w, live, obj, entries, manager); err != nil {
		restore()
		return false
	}
	obj.SetManagedFields(k.encode(entries, &w.encoder))
	return true
}

// hideManaged removes the managed fields of an object until restore is called.
func hideManaged(obj codec.Object) (restore func()) {
	if u, ok := obj.(*unstructured.Unstructured); ok {
		meta, _ := u.Object["metadata"].(map[string]any)
		sent, ok := meta["managedFields"]
		delete(meta, "managedFields")
		return func() {
			if ok {
				meta["managedFields"] = sent
			}
		}
	}
	sent := obj.GetManagedFields()
	obj.SetManagedFields(nil)
	return func() { obj.SetManagedFields(sent) }
}

// entriesOf decodes the managed fields that an update starts with. These are the managed fields of the
// request if they are valid and permitted, and otherwise the managed fields of the live object.
func (k *Kind) entriesOf(live, obj codec.Object) ([]entry, error) {
	if k.subresource == "" {
		sent := obj.GetManagedFields()
		if isReset(sent) {
			return nil, nil
		}
		entries, err := k.decode(sent)
		if err != nil && err != errMalformed {
			return nil, err
		}
		if err == nil && len(entries) > 0 {
			return entries, nil
		}
	}
	entries, err := k.decode(live.GetManagedFields())
	if err == errMalformed {
		return nil, nil
	}
	return entries, err
}

// update returns the entries after a write.
func (k *Kind) update(w *workspace, live, obj codec.Object, entries []entry, manager string) ([]entry, error) {
	changes, err := k.compare(w, live, obj)
	if err != nil {
		return nil, err
	}
	changes = w.exclude(changes, k.reset)
	own := w.strip(w.members(changes))
	self := owner{manager, metav1.ManagedFieldsOperationUpdate, k.apiVersion, k.subresource}
	if self.manager == "" {
		self.manager = "unknown"
	}
	owned := len(own) == 0
	for i := range entries {
		e := &entries[i]
		if e.owner == self && len(own) > 0 {
			owned = true
			e.time = k.now()
			e.add(w, changes, own)
		} else if left := w.subtract(e.nodes, changes); !sameNodes(left, e.nodes) {
			e.setNodes(left)
		}
	}
	if !owned {
		entries = append(entries, entry{owner: self, nodes: own, changed: true, time: k.now()})
	}
	entries = slices.DeleteFunc(entries, func(e entry) bool { return len(e.nodes) == 0 })
	return k.capUpdaters(w, entries), nil
}

// add adds the changes of a manager to its entry.
func (e *entry) add(w *workspace, changes, own []node) {
	left := w.subtract(e.nodes, changes)
	if contains(left, own) {
		if !sameNodes(left, e.nodes) {
			e.setNodes(left)
		}
		return
	}
	all := w.union(left, own)
	if contains(e.nodes, all) && contains(all, e.nodes) {
		return
	}
	e.setNodes(all)
}

// conforms reports whether an object conforms to its merge schema.
func (k *Kind) conforms(w *workspace, obj codec.Object) bool {
	if k.plan != nil {
		return k.plan.conforms(reflect.ValueOf(obj))
	}
	w.fieldsOf(k.root, obj.(*unstructured.Unstructured).Object, readOptions{checked: true, duplicates: true})
	return w.err == nil
}

// compare returns the differences between two objects.
func (k *Kind) compare(w *workspace, live, obj codec.Object) ([]node, error) {
	if !k.conforms(w, live) || !k.conforms(w, obj) {
		return nil, errUnsupported
	}
	n := len(w.stack)
	if k.plan != nil {
		w.differ.compare(k.plan, present(reflect.ValueOf(live)), present(reflect.ValueOf(obj)))
	} else {
		l, r := live.(*unstructured.Unstructured), obj.(*unstructured.Unstructured)
		w.differ.compareDocument(k.root, doc{l.Object, true}, doc{r.Object, true}, sameValue)
	}
	return w.popList(n), w.err
}
