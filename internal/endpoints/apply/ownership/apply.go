package ownership

import (
	"maps"
	"reflect"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"mainstay.dev/mainstay/internal/codec"
)

// beforeFirstApply is the manager that owns the existing fields of an object without managed fields when
// the object is first applied.
const beforeFirstApply = "before-first-apply"

const lastAppliedAnnotation = "kubectl.kubernetes.io/last-applied-configuration"

// Apply merges an applied configuration into live, which is empty for a new object, and records ownership.
// It returns nil for unsupported cases. These include all errors, such as a conflict or a configuration
// that does not conform to its merge schema. Apply does not modify its arguments; the result shares no
// memory with them except times.
func (k *Kind) Apply(live codec.Object, applied *unstructured.Unstructured, manager string, force bool) codec.Object {
	if !k.supports(live) || applied.GroupVersionKind() != k.gvk || !isASCII(manager) || k.affectsLastApplied(live, applied, manager) {
		return nil
	}
	meta, ok := applied.Object["metadata"].(map[string]any)
	if _, sent := meta["managedFields"]; sent || !ok {
		return nil
	}
	entries, err := k.decode(live.GetManagedFields())
	if err != nil {
		return nil
	}
	w := k.workspace()
	defer k.releaseWorkspace(w)
	if len(entries) == 0 {
		// As in apimachinery, all existing fields are first attributed to beforeFirstApply.
		if entries, err = k.update(w, k.empty(), live, nil, beforeFirstApply); err != nil {
			return nil
		}
	}
	out, err := k.apply(w, live, applied, entries, manager, force)
	if err != nil {
		return nil
	}
	return out
}

// affectsLastApplied reports whether an apply affects the annotation of kubectl's client-side apply.
func (k *Kind) affectsLastApplied(live codec.Object, applied *unstructured.Unstructured, manager string) bool {
	return manager == "kubectl" && (live.GetAnnotations()[lastAppliedAnnotation] != "" || applied.GetAnnotations()[lastAppliedAnnotation] != "")
}

func (k *Kind) empty() codec.Object {
	obj := k.version.New()
	obj.GetObjectKind().SetGroupVersionKind(k.gvk)
	return obj
}

func (k *Kind) apply(w *workspace, live codec.Object, applied *unstructured.Unstructured, entries []entry, manager string, force bool) (codec.Object, error) {
	if owned(entries, "metadata", "managedFields") || !k.conforms(w, live) {
		return nil, errUnsupported
	}
	self := k.applier(manager)
	n := len(w.stack)
	w.fieldsOf(k.root, applied.Object, readOptions{owned: true, checked: true})
	own := w.exclude(w.popList(n), k.reset)
	before := k.document(w, live)
	merged, _ := w.merge(k.root, doc{before, true}, doc{applied.Object, true})
	after, _ := merged.(map[string]any)
	if w.err != nil || after == nil {
		return nil, errUnsupported
	}

	e := ownedBy(entries, self)
	if e == nil {
		entries = append(entries, entry{owner: self})
		e = &entries[len(entries)-1]
	}
	last := e.nodes
	e.setNodes(own)
	if !contains(own, last) {
		managed := w.unionAll(entries, e, k.appliedFields(w, applied.Object))
		if after = w.prune(k.schema, after, last, managed, w.nullsOf(k.root, applied.Object)); after == nil {
			return nil, errUnsupported
		}
	}
	entries, err := k.removeFromOthers(w, entries, self, before, after, force)
	if err != nil {
		return nil, err
	}
	return k.result(w, live, before, after, entries, self)
}

// applier returns the owner of the fields that a manager applies.
func (k *Kind) applier(manager string) owner {
	if manager == "" {
		manager = "unknown"
	}
	return owner{manager, metav1.ManagedFieldsOperationApply, "", k.subresource}
}

// appliedFields returns the fields that an applied configuration sets, and its empty lists.
func (k *Kind) appliedFields(w *workspace, applied map[string]any) []node {
	n := len(w.stack)
	w.fieldsOf(k.root, applied, readOptions{owned: true, emptyLists: true})
	return w.exclude(w.popList(n), k.reset)
}

// unionAll returns the union of the fields of all managers, in which own replaces the fields of e.
func (w *workspace) unionAll(entries []entry, e *entry, own []node) []node {
	all := own
	for i := range entries {
		if &entries[i] != e {
			all = w.union(all, entries[i].nodes)
		}
	}
	return all
}

// removeFromOthers removes the fields changed by an apply from all other managers. Without force, it returns
// errUnsupported if another manager owns one of them.
func (k *Kind) removeFromOthers(w *workspace, entries []entry, self owner, before, after any, force bool) ([]entry, error) {
	n := len(w.stack)
	w.compareDocument(k.root, doc{before, true}, doc{after, true}, sameValue)
	changes := w.exclude(w.popList(n), k.reset)
	if w.err != nil {
		return nil, w.err
	}
	own := w.members(changes)
	for i := range entries {
		e := &entries[i]
		if e.owner == self {
			continue
		}
		if !force && overlaps(e.nodes, own) {
			return nil, errUnsupported // a conflict: apimachinery creates the error
		}
		if left := w.subtract(e.nodes, changes); !sameNodes(left, e.nodes) {
			e.setNodes(left)
		}
	}
	return entries, nil
}

// result returns the object after an apply, with the new managed fields.
func (k *Kind) result(w *workspace, live codec.Object, before, after any, entries []entry, self owner) (codec.Object, error) {
	unchanged := sameValue(before, after)
	e := ownedBy(entries, self)
	e.setNodes(w.strip(e.nodes))
	if e.set != nil && contains(e.nodes, e.set.nodes) && contains(e.set.nodes, e.nodes) {
		e.changed = false
	}
	if !unchanged {
		e.time = k.now()
	}
	entries = slices.DeleteFunc(entries, func(e entry) bool { return len(e.nodes) == 0 })
	if unchanged {
		out := live.DeepCopyObject().(codec.Object)
		out.SetManagedFields(k.encode(entries, &w.encoder))
		return out, nil
	}
	out, err := k.objectAfter(live, before.(map[string]any), after.(map[string]any))
	if err != nil {
		return nil, err
	}
	out.SetManagedFields(k.encode(entries, &w.encoder))
	return out, nil
}

// document returns an object as a document without managed fields. The document may share memory
// with the object and must not be modified.
func (k *Kind) document(w *workspace, live codec.Object) map[string]any {
	u, ok := live.(*unstructured.Unstructured)
	if !ok {
		return w.objectDocument(k.plan, reflect.ValueOf(live))
	}
	meta, _ := u.Object["metadata"].(map[string]any)
	if _, ok := meta["managedFields"]; !ok {
		return u.Object
	}
	meta = maps.Clone(meta)
	delete(meta, "managedFields")
	content := maps.Clone(u.Object)
	content["metadata"] = meta
	return content
}

// objectAfter converts the document after to an object. before is the document of live, from which after
// was derived.
func (k *Kind) objectAfter(live codec.Object, before, after map[string]any) (codec.Object, error) {
	if k.plan == nil || k.documents || live.GetName() == "" { // a new object has no fields to preserve
		return k.object(after)
	}
	out, err := k.rebuild(live, before, after)
	if err != nil {
		return nil, err
	}
	return k.defaulted(out), nil
}

// object converts a document to an object, which does not retain the document.
func (k *Kind) object(document map[string]any) (codec.Object, error) {
	if k.plan == nil {
		return &unstructured.Unstructured{Object: runtime.DeepCopyJSON(document)}, nil
	}
	out, _, err := k.version.FromDocument(document, false)
	if err != nil {
		return nil, err
	}
	return k.defaulted(out), nil
}

// defaulted sets the defaults of an object with a Go type. Custom resources are defaulted when they
// are read.
func (k *Kind) defaulted(obj codec.Object) codec.Object {
	if k.version.Default != nil {
		k.version.Default(obj)
	}
	return obj
}

// owned reports whether any entry contains the field at a path or a field below it.
func owned(entries []entry, path ...string) bool {
	return slices.ContainsFunc(entries, func(e entry) bool {
		list := e.nodes
		for i, name := range path {
			n := findNode(list, name)
			if n == nil {
				return false
			}
			if i == len(path)-1 {
				return true
			}
			list = n.children
		}
		return false
	})
}
