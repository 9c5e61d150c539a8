// Package apply maintains managed fields and implements server-side apply (KEP-555). Package ownership
// handles most writes. apimachinery's field manager handles the remaining writes, with the merge schema of
// each kind.
package apply

import (
	"fmt"
	"log/slog"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/endpoints/apply/ownership"
	"mainstay.dev/mainstay/internal/rest"
	"mainstay.dev/mainstay/internal/simulation"
)

// Managers creates the field managers of resources, each on first use. It is safe for concurrent use. A
// resource must be used with only one Managers.
type Managers struct {
	// Logger receives debug messages about writes whose fields could not be recorded; nil discards
	// them. It must not change after the first use.
	Logger *slog.Logger
	// Simulation is the clock for the times of managed fields; nil means the real clock. It must not
	// change after the first use.
	Simulation *simulation.Simulation

	converter managedfields.TypeConverter
	cache     *ownership.Cache
	mu        *sync.RWMutex // guards rest.Resource.FieldManager
}

// NewManagers returns Managers with the merge schemas of converter. A nil converter disables
// managed fields. Managers with the same converter can share a cache; nil selects a new one.
func NewManagers(converter managedfields.TypeConverter, cache *ownership.Cache) Managers {
	if cache == nil {
		cache = &ownership.Cache{}
	}
	return Managers{converter: converter, cache: cache, mu: new(sync.RWMutex)}
}

// For returns the manager of a resource, and creates it on first use. It returns nil if managed fields are
// disabled or the resource is not stored.
func (m Managers) For(resource *rest.Resource) *Manager {
	if m.converter == nil || resource.Kind == nil {
		return nil
	}
	m.mu.RLock()
	made, found := resource.FieldManager.(*Manager)
	m.mu.RUnlock()
	if found {
		return made
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if made, found := resource.FieldManager.(*Manager); found {
		return made // another request was first
	}
	made = m.newManager(resource)
	resource.FieldManager = made
	return made
}

// Manager maintains the managed fields of one resource in one version. It is safe for concurrent
// use.
type Manager struct {
	types   kindTypes
	version *codec.Version
	// fast is the fast implementation; nil if it does not support the kind.
	fast *ownership.Kind
	// fallback returns apimachinery's field manager, for the cases that fast does not support. It is created on first use,
	// because it has many parts, and few resources need it.
	fallback func() (*managedfields.FieldManager, error)
	logger   *slog.Logger
}

func (m Managers) newManager(resource *rest.Resource) *Manager {
	types := kindTypes{resource.Kind}
	converter := resource.TypeConverter
	if converter == nil {
		converter = m.converter
	}
	made := &Manager{types: types, version: resource.Version, logger: m.Logger}
	made.fallback = sync.OnceValues(func() (*managedfields.FieldManager, error) { return newFallback(resource, types, converter) })
	if made.logger == nil {
		made.logger = slog.New(slog.DiscardHandler)
	}
	made.fast = ownership.New(ownership.Config{
		Version: resource.Version, Subresource: resource.Subresource, ResetFields: resource.ResetFields,
		Converter: converter, Cache: m.cache, Simulation: m.Simulation,
	})
	return made
}

func newFallback(resource *rest.Resource, types kindTypes, converter managedfields.TypeConverter) (*managedfields.FieldManager, error) {
	create := managedfields.NewDefaultFieldManager
	if resource.Version.Untyped {
		create = managedfields.NewDefaultCRDFieldManager
	}
	fields, err := create(converter, types, types, types, resource.Version.GVK, resource.Kind.Hub.GVK.GroupVersion(),
		resource.Subresource, fieldpath.NewExcludeFilterSetMap(resource.ResetFields))
	if err != nil {
		return nil, fmt.Errorf("manage fields of %s: %w", resource.FullName(), err)
	}
	return fields, nil
}

// Update records that manager replaced live with obj, and returns the object with the new managed fields. It
// may modify and return obj, but does not modify live. If an error occurs, the object keeps the managed
// fields of live, because an error in managed fields must not fail a write.
func (m *Manager) Update(live, obj codec.Object, manager string) codec.Object {
	if m.updateFast(live, obj, manager) {
		return obj
	}
	updated, err := m.updateWithFallback(live, obj, manager)
	if err != nil {
		m.logger.Debug("fields of a write are not accounted for", "kind", obj.GetObjectKind().GroupVersionKind(),
			"namespace", obj.GetNamespace(), "name", obj.GetName(), "err", err)
		obj.SetManagedFields(live.GetManagedFields())
		return obj
	}
	return updated.(codec.Object)
}

// updateWithFallback implements Update with apimachinery's field manager.
func (m *Manager) updateWithFallback(live, obj codec.Object, manager string) (runtime.Object, error) {
	fields, err := m.fallback()
	if err != nil {
		return nil, err
	}
	return fields.Update(live, obj, manager)
}

// updateFast implements Update with package ownership. It returns false for unsupported cases. Both objects
// are compared in the written version.
func (m *Manager) updateFast(live, obj codec.Object, manager string) bool {
	if m.fast == nil {
		return false
	}
	if m.version.GVK == m.types.kind.Hub.GVK {
		return m.fast.Update(live, obj, manager)
	}
	versionedLive, err := m.versioned(live)
	if err != nil {
		return false
	}
	versioned, err := m.versioned(obj)
	if err != nil || versioned == obj || !m.fast.Update(versionedLive, versioned, manager) {
		return false
	}
	obj.SetManagedFields(versioned.GetManagedFields())
	return true
}

func (m *Manager) versioned(obj codec.Object) (codec.Object, error) {
	converted, err := m.types.ConvertToVersion(obj, m.version.GVK.GroupVersion())
	if err != nil {
		return nil, err
	}
	return converted.(codec.Object), nil
}

// Apply merges an applied configuration, which must have a kind and apiVersion, into live and records
// ownership. It modifies neither object, but the result may share memory with them. A conflict with another
// manager is an API error (409) unless force is set.
func (m *Manager) Apply(live codec.Object, applied runtime.Object, manager string, force bool) (codec.Object, error) {
	if err := m.checkDeclared(applied); err != nil {
		return nil, err
	}
	if u, ok := applied.(*unstructured.Unstructured); ok && m.fast != nil {
		if merged := m.fast.Apply(live, u, manager, force); merged != nil {
			return merged, nil
		}
	}
	fields, err := m.fallback()
	if err != nil {
		return nil, err
	}
	// Both objects are copied, because the library modifies live if it does not merge, and because a merge
	// result may share memory with the applied object.
	merged, err := fields.Apply(live.DeepCopyObject(), applied.DeepCopyObject(), manager, force)
	if err != nil {
		return nil, err
	}
	u, ok := applied.(*unstructured.Unstructured)
	if !ok || m.fast == nil {
		return merged.(codec.Object), nil
	}
	return m.refill(live, merged.(codec.Object), u, manager)
}

// checkDeclared returns an error with kube-apiserver's message if an applied configuration sets fields
// that the version does not have, although its type does.
func (m *Manager) checkDeclared(applied runtime.Object) error {
	u, ok := applied.(*unstructured.Unstructured)
	if !ok || m.version.UnknownFields == nil {
		return nil
	}
	obj, _, err := m.version.FromDocument(runtime.DeepCopyJSON(u.Object), false)
	if err != nil {
		return nil // the merge reports the error
	}
	unknown := m.version.UnknownFields(obj)
	if len(unknown) == 0 {
		return nil
	}
	return fmt.Errorf("failed to create typed patch object (%s/%s; %s, Kind=%s): .%s: field not declared in schema",
		u.GetNamespace(), u.GetName(), u.GetAPIVersion(), u.GetKind(), unknown[0])
}

// refill restores empty maps and lists of live that the fallback dropped from merged. The objects
// are compared in the applied version.
func (m *Manager) refill(live, merged codec.Object, applied *unstructured.Unstructured, manager string) (codec.Object, error) {
	if m.version.GVK == m.types.kind.Hub.GVK {
		return m.fast.Refill(live, merged, applied, manager), nil
	}
	versionedLive, err := m.versioned(live)
	if err != nil {
		return nil, err
	}
	versioned, err := m.versioned(merged)
	if err != nil {
		return nil, err
	}
	refilled := m.fast.Refill(versionedLive, versioned, applied, manager)
	if refilled == versioned {
		return merged, nil
	}
	hub, err := m.types.ConvertToVersion(refilled, m.types.kind.Hub.GVK.GroupVersion())
	if err != nil {
		return nil, err
	}
	return hub.(codec.Object), nil
}

// kindTypes implements the scheme that the field manager requires, for one kind.
type kindTypes struct{ kind *codec.Kind }

// ConvertToVersion implements runtime.ObjectConvertor. The result may be the argument, because the field
// manager does not modify converted objects.
func (t kindTypes) ConvertToVersion(in runtime.Object, target runtime.GroupVersioner) (runtime.Object, error) {
	gvk := in.GetObjectKind().GroupVersionKind()
	if gvk.Empty() {
		gvk = t.kind.Hub.GVK
	}
	want, ok := target.KindForGroupVersionKinds([]schema.GroupVersionKind{gvk})
	if !ok {
		// The target is a different group version. The result has the same kind in that version.
		if gv, isGV := target.(schema.GroupVersion); isGV {
			want, ok = gv.WithKind(gvk.Kind), true
		}
	}
	in, err := t.typed(in)
	if err != nil || !ok || want == gvk {
		return in, err
	}
	from, to := t.kind.Version(gvk.GroupVersion()), t.kind.Version(want.GroupVersion())
	if from == nil || to == nil {
		return nil, t.noVersion(gvk, want, from == nil)
	}
	obj, ok := in.DeepCopyObject().(codec.Object)
	if !ok {
		return nil, fmt.Errorf("convert %T: no object with metadata", in)
	}
	// The conversion sets no defaults, because the field manager also converts an object without fields,
	// which must stay empty, to find the fields that a write adds.
	if from.ToHub != nil {
		if obj, err = from.ToHub(obj); err != nil {
			return nil, err
		}
	}
	out, err := to.ConvertFromHub(obj)
	if err != nil {
		return nil, err
	}
	out.GetObjectKind().SetGroupVersionKind(to.GVK)
	return out, nil
}

// noVersion returns the error for a conversion from or to an unknown version of a kind. For a built-in
// kind, the library detects this error and drops the managers of that version. For a removed version of a
// definition, an apply fails with kube-apiserver's message until the managed fields no longer contain the
// version.
func (t kindTypes) noVersion(from, to schema.GroupVersionKind, fromMissing bool) error {
	switch {
	case !t.kind.Hub.Untyped:
		return runtime.NewNotRegisteredErrForTarget(t.kind.Hub.GVK.Kind, nil, to.GroupVersion())
	case fromMissing:
		return fmt.Errorf("request to convert CR from an invalid group/version: %s", from.GroupVersion())
	}
	return fmt.Errorf("request to convert CR to an invalid group/version: %s", to.GroupVersion())
}

// typed converts a merge result, which is unstructured, to the Go type of its kind, with defaults.
// It returns other objects unchanged.
func (t kindTypes) typed(in runtime.Object) (runtime.Object, error) {
	u, ok := in.(*unstructured.Unstructured)
	v := t.kind.Version(in.GetObjectKind().GroupVersionKind().GroupVersion())
	if !ok || v == nil || v.Untyped {
		return in, nil
	}
	obj, _, err := v.FromDocument(u.Object, false)
	if err != nil {
		return nil, fmt.Errorf("read merged %s: %w", v.GVK.Kind, err)
	}
	if v.Default != nil {
		v.Default(obj)
	}
	return obj, nil
}

// Convert implements runtime.ObjectConvertor.
func (t kindTypes) Convert(in, out, _ any) error {
	return fmt.Errorf("convert %T to %T: not supported for field managers", in, out)
}

// ConvertFieldLabel implements runtime.ObjectConvertor.
func (t kindTypes) ConvertFieldLabel(schema.GroupVersionKind, string, string) (string, string, error) {
	return "", "", fmt.Errorf("field labels are not supported for field managers")
}

// Default implements runtime.ObjectDefaulter. It does nothing, because typed sets the defaults of merge
// results.
func (t kindTypes) Default(runtime.Object) {}

// New implements runtime.ObjectCreater.
func (t kindTypes) New(gvk schema.GroupVersionKind) (runtime.Object, error) {
	v := t.kind.Version(gvk.GroupVersion())
	if v == nil || v.GVK.Kind != gvk.Kind {
		return nil, runtime.NewNotRegisteredErrForKind("", gvk)
	}
	obj := v.New()
	obj.GetObjectKind().SetGroupVersionKind(gvk)
	return obj, nil
}
