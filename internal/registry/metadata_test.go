package registry

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// TestMetadata compares the validation errors with apimachinery's, and checks which changes the fast path
// accepts.
func TestMetadata(t *testing.T) {
	t.Parallel()
	s := &Strategy{Namespaced: true}
	owner := metav1.OwnerReference{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "a", UID: "1"}
	grace, later := int64(1), metav1.NewTime(time.Unix(2, 0))
	for name, c := range map[string]struct {
		change func(m *metav1.ObjectMeta)
		quick  bool
	}{
		"as it was":           {func(*metav1.ObjectMeta) {}, true},
		"other labels":        {func(m *metav1.ObjectMeta) { m.Labels = map[string]string{"example.com/A": "", "b": "B_c"} }, true},
		"another owner":       {func(m *metav1.ObjectMeta) { m.OwnerReferences = append(m.OwnerReferences, owner) }, true},
		"another generation":  {func(m *metav1.ObjectMeta) { m.Generation++ }, true},
		"a label's key":       {func(m *metav1.ObjectMeta) { m.Labels = map[string]string{"a b": ""} }, false},
		"a label's value":     {func(m *metav1.ObjectMeta) { m.Labels = map[string]string{"a": "b c"} }, false},
		"an annotation's key": {func(m *metav1.ObjectMeta) { m.Annotations = map[string]string{"/a": ""} }, false},
		"capitals in a key":   {func(m *metav1.ObjectMeta) { m.Annotations = map[string]string{"Example.com/a": ""} }, false},
		"long annotations":    {func(m *metav1.ObjectMeta) { m.Annotations = map[string]string{"a": strings.Repeat("a", 256<<10)} }, false},
		"finalizers":          {func(m *metav1.ObjectMeta) { m.Finalizers = []string{"a b"} }, false},
		"finalizers that exclude each other": {func(m *metav1.ObjectMeta) {
			m.Finalizers = []string{metav1.FinalizerOrphanDependents, metav1.FinalizerDeleteDependents}
		}, false},
		"an owner without a name": {func(m *metav1.ObjectMeta) { m.OwnerReferences[0].Name = "" }, false},
		"a manager's operation":   {func(m *metav1.ObjectMeta) { m.ManagedFields = []metav1.ManagedFieldsEntry{{Operation: "Delete"}} }, false},
		"a negative generation":   {func(m *metav1.ObjectMeta) { m.Generation = -1 }, false},
		"no namespace":            {func(m *metav1.ObjectMeta) { m.Namespace = "" }, false},
		"a namespace's name":      {func(m *metav1.ObjectMeta) { m.Namespace = "A" }, false},
		"no name":                 {func(m *metav1.ObjectMeta) { m.Name = "" }, false},
	} {
		m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
			Name: "a", Namespace: "b", UID: "1", ResourceVersion: "1", Generation: 1, CreationTimestamp: metav1.NewTime(time.Unix(1, 0)),
			OwnerReferences: []metav1.OwnerReference{owner}, Finalizers: []string{"example.com/a"},
		}}
		old := m.DeepCopy()
		c.change(&m.ObjectMeta)
		same(t, name+", new", s.validateMetadata(m), validation.ValidateObjectMetaAccessor(m, true, s.validateName, field.NewPath("metadata")))
		same(t, name, s.validateMetadataUpdate(m, old), metadataFaults(m, old))
		if quick := s.validNames(m) && s.validMetadata(m) && sameIdentity(m, old); quick != c.quick {
			t.Errorf("%s: accepted by the fast path: %t, want %t", name, quick, c.quick)
		}
	}
	s.testMarkedForDeletion(t)
	for name, change := range map[string]func(m *metav1.ObjectMeta){
		"a prefix of names":  func(m *metav1.ObjectMeta) { m.GenerateName = "A-" },
		"another name":       func(m *metav1.ObjectMeta) { m.Name = "b" },
		"another namespace":  func(m *metav1.ObjectMeta) { m.Namespace = "c" },
		"another uid":        func(m *metav1.ObjectMeta) { m.UID = "2" },
		"another creation":   func(m *metav1.ObjectMeta) { m.CreationTimestamp = later },
		"a deletion":         func(m *metav1.ObjectMeta) { m.DeletionTimestamp = &later },
		"a grace period":     func(m *metav1.ObjectMeta) { m.DeletionGracePeriodSeconds = &grace },
		"no version":         func(m *metav1.ObjectMeta) { m.ResourceVersion = "" },
		"a lower generation": func(m *metav1.ObjectMeta) { m.Generation = 0 },
	} {
		m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "b", UID: "1", ResourceVersion: "1", Generation: 1}}
		old := m.DeepCopy()
		change(&m.ObjectMeta)
		same(t, name+", new", s.validateMetadata(m), validation.ValidateObjectMetaAccessor(m, true, s.validateName, field.NewPath("metadata")))
		same(t, name, s.validateMetadataUpdate(m, old), metadataFaults(m, old))
	}
}

// testMarkedForDeletion tests objects that are marked for deletion.
func (s *Strategy) testMarkedForDeletion(t *testing.T) {
	t.Helper()
	due, later, grace, longer := metav1.NewTime(time.Unix(2, 0)), metav1.NewTime(time.Unix(3, 0)), int64(1), int64(2)
	for name, c := range map[string]struct {
		change func(m *metav1.ObjectMeta)
		quick  bool
	}{
		"as it was":           {func(*metav1.ObjectMeta) {}, true},
		"other labels":        {func(m *metav1.ObjectMeta) { m.Labels = map[string]string{"a": "b"} }, true},
		"another time":        {func(m *metav1.ObjectMeta) { m.DeletionTimestamp = &later }, false},
		"no time":             {func(m *metav1.ObjectMeta) { m.DeletionTimestamp = nil }, false},
		"a longer period":     {func(m *metav1.ObjectMeta) { m.DeletionGracePeriodSeconds = &longer }, false},
		"no period":           {func(m *metav1.ObjectMeta) { m.DeletionGracePeriodSeconds = nil }, false},
		"another finalizer":   {func(m *metav1.ObjectMeta) { m.Finalizers = []string{"example.com/b"} }, false},
		"a finalizer is gone": {func(m *metav1.ObjectMeta) { m.Finalizers = nil }, false},
	} {
		m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
			Name: "a", Namespace: "b", UID: "1", ResourceVersion: "1", Finalizers: []string{"example.com/a"},
			DeletionTimestamp: &due, DeletionGracePeriodSeconds: &grace,
		}}
		old := m.DeepCopy()
		c.change(&m.ObjectMeta)
		same(t, "deleted, "+name, s.validateMetadataUpdate(m, old), metadataFaults(m, old))
		if quick := s.validMetadata(m) && sameIdentity(m, old); quick != c.quick {
			t.Errorf("deleted, %s: accepted by the fast path: %t, want %t", name, quick, c.quick)
		}
	}
}

func metadataFaults(obj, old metav1.Object) field.ErrorList {
	path := field.NewPath("metadata")
	errs := validation.ValidateObjectMetaAccessor(obj, true, anyPathSegment, path)
	return append(errs, validation.ValidateObjectMetaAccessorUpdate(obj, old, path)...)
}

func same(t *testing.T, name string, got, want field.ErrorList) {
	t.Helper()
	if g, w := got.ToAggregate(), want.ToAggregate(); (g == nil) != (w == nil) || g != nil && g.Error() != w.Error() {
		t.Errorf("%s: %v, want %v", name, g, w)
	}
}
