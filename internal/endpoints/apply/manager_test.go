package apply_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/yaml"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/endpoints/apply"
	"mainstay.dev/mainstay/internal/endpoints/openapi"
	"mainstay.dev/mainstay/internal/rest"
)

// hpa returns a kind with two versions. v2 is the hub, and v1 has a single field instead of a list in v2.
func hpa() *codec.Kind {
	hub := &codec.Version{GVK: autoscalingv2.SchemeGroupVersion.WithKind("HorizontalPodAutoscaler"),
		New: func() codec.Object { return new(autoscalingv2.HorizontalPodAutoscaler) }}
	one := &codec.Version{GVK: autoscalingv1.SchemeGroupVersion.WithKind("HorizontalPodAutoscaler"),
		New: func() codec.Object { return new(autoscalingv1.HorizontalPodAutoscaler) }, ToHub: toHub, FromHub: fromHub}
	return &codec.Kind{Hub: hub, Versions: []*codec.Version{hub, one}}
}

func toHub(obj codec.Object) (codec.Object, error) {
	in := obj.(*autoscalingv1.HorizontalPodAutoscaler)
	out := &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: in.ObjectMeta}
	out.Spec.MinReplicas, out.Spec.MaxReplicas = in.Spec.MinReplicas, in.Spec.MaxReplicas
	if cpu := in.Spec.TargetCPUUtilizationPercentage; cpu != nil {
		out.Spec.Metrics = []autoscalingv2.MetricSpec{{Type: autoscalingv2.ResourceMetricSourceType, Resource: &autoscalingv2.ResourceMetricSource{
			Name: corev1.ResourceCPU, Target: autoscalingv2.MetricTarget{Type: autoscalingv2.UtilizationMetricType, AverageUtilization: cpu}}}}
	}
	return out, nil
}

func fromHub(obj codec.Object) (codec.Object, error) {
	in := obj.(*autoscalingv2.HorizontalPodAutoscaler)
	out := &autoscalingv1.HorizontalPodAutoscaler{ObjectMeta: in.ObjectMeta}
	out.Spec.MinReplicas, out.Spec.MaxReplicas = in.Spec.MinReplicas, in.Spec.MaxReplicas
	for _, m := range in.Spec.Metrics {
		out.Spec.TargetCPUUtilizationPercentage = m.Resource.Target.AverageUtilization
	}
	return out, nil
}

// managers contains the managers of the kind's versions and of a status subresource.
type managers struct{ one, two, status *apply.Manager }

func newManagers(t testing.TB) managers {
	t.Helper()
	kind := hpa()
	all := apply.NewManagers(openapi.NewTypeConverter(), nil)
	made := func(v *codec.Version, subresource string, reset ...string) *apply.Manager {
		r := &rest.Resource{GroupVersion: v.GVK.GroupVersion(), Name: "horizontalpodautoscalers", Subresource: subresource, Kind: kind, Version: v}
		r.ResetFields = map[fieldpath.APIVersion]*fieldpath.Set{}
		for _, field := range reset {
			for _, version := range kind.Versions {
				r.ResetFields[fieldpath.APIVersion(version.GVK.GroupVersion().String())] = fieldpath.NewSet(fieldpath.MakePathOrDie(field))
			}
		}
		m := all.For(r)
		if m == nil {
			t.Fatalf("no manager of %s", v.GVK)
		}
		if again := all.For(r); again != m {
			t.Fatal("a second manager was created for the same resource")
		}
		return m
	}
	return managers{made(kind.Versions[1], "", "status"), made(kind.Hub, "", "status"), made(kind.Hub, "status", "spec")}
}

func blank() *autoscalingv2.HorizontalPodAutoscaler {
	h := new(autoscalingv2.HorizontalPodAutoscaler)
	h.SetGroupVersionKind(autoscalingv2.SchemeGroupVersion.WithKind("HorizontalPodAutoscaler"))
	return h
}

// applied parses an applied configuration. version is v1 or v2.
func applied(t testing.TB, version, text string) *unstructured.Unstructured {
	t.Helper()
	content := map[string]any{}
	if err := yaml.Unmarshal([]byte(text), &content); err != nil {
		t.Fatal(err)
	}
	u := &unstructured.Unstructured{Object: content}
	u.SetGroupVersionKind(schema.GroupVersionKind{Group: "autoscaling", Version: version, Kind: "HorizontalPodAutoscaler"})
	u.SetName("h")
	return u
}

// entries formats each managed fields entry as its manager, operation, version, subresource and field set.
func entries(obj metav1.Object) []string {
	var out []string
	for _, e := range obj.GetManagedFields() {
		out = append(out, fmt.Sprintf("%s %s %s %q %s", e.Manager, e.Operation, e.APIVersion, e.Subresource, strings.ReplaceAll(string(e.FieldsV1.Raw), `"`, "")))
	}
	return out
}

func wantEntries(t testing.TB, obj metav1.Object, want ...string) {
	t.Helper()
	// Entries are sorted by time. Times have no fractional seconds, so the order is not deterministic.
	got := entries(obj)
	slices.Sort(got)
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("managed fields (-want +got):\n%s", diff)
	}
}

// TestTwoVersions checks that an apply in one version detects conflicts with fields that were applied in
// the other version, and preserves the owners of these fields.
func TestTwoVersions(t *testing.T) {
	t.Parallel()
	m := newManagers(t)
	live, err := m.one.Apply(blank(), applied(t, "v1", `spec: {maxReplicas: 5, targetCPUUtilizationPercentage: 50}`), "old", false)
	if err != nil {
		t.Fatal(err)
	}
	h, ok := live.(*autoscalingv2.HorizontalPodAutoscaler)
	if !ok || h.Spec.MaxReplicas != 5 || len(h.Spec.Metrics) != 1 {
		t.Fatalf("merged %T %+v; want the hub version", live, live)
	}
	wantEntries(t, h, `old Apply autoscaling/v1 "" {f:spec:{f:maxReplicas:{},f:targetCPUUtilizationPercentage:{}}}`)

	_, err = m.two.Apply(h, applied(t, "v2", `spec: {maxReplicas: 6}`), "new", false)
	if !apierrors.IsConflict(err) || !strings.Contains(err.Error(), `conflict with "old": .spec.maxReplicas`) {
		t.Errorf("error %v; want a conflict", err)
	}
	live, err = m.two.Apply(h, applied(t, "v2", `spec: {maxReplicas: 6}`), "new", true)
	if err != nil {
		t.Fatal(err)
	}
	h = live.(*autoscalingv2.HorizontalPodAutoscaler)
	if h.Spec.MaxReplicas != 6 || len(h.Spec.Metrics) != 1 {
		t.Errorf("spec %+v", h.Spec)
	}
	wantEntries(t, h, `new Apply autoscaling/v2 "" {f:spec:{f:maxReplicas:{}}}`, `old Apply autoscaling/v1 "" {f:spec:{f:targetCPUUtilizationPercentage:{}}}`)

	// The first manager removes its field from the configuration. The field is removed in both
	// versions.
	live, err = m.one.Apply(h, applied(t, "v1", `spec: {}`), "old", false)
	if err != nil {
		t.Fatal(err)
	}
	if h = live.(*autoscalingv2.HorizontalPodAutoscaler); h.Spec.MaxReplicas != 6 || len(h.Spec.Metrics) != 0 {
		t.Errorf("spec %+v", h.Spec)
	}
}

func TestUpdatesInTwoVersions(t *testing.T) {
	t.Parallel()
	m := newManagers(t)
	next := blank()
	next.Spec.MaxReplicas = 5
	live := m.one.Update(blank(), next, "old")
	wantEntries(t, live, `old Update autoscaling/v1 "" {f:spec:{f:maxReplicas:{}}}`)
	next = live.DeepCopyObject().(*autoscalingv2.HorizontalPodAutoscaler)
	next.Spec.MinReplicas = new(int32)
	live = m.two.Update(live, next, "new")
	wantEntries(t, live, `new Update autoscaling/v2 "" {f:spec:{f:minReplicas:{}}}`, `old Update autoscaling/v1 "" {f:spec:{f:maxReplicas:{}}}`)
}

// TestUnknownVersions checks that an apply drops entries of versions that are no longer served, and
// does not fail.
func TestUnknownVersions(t *testing.T) {
	t.Parallel()
	m := newManagers(t)
	live := blank()
	live.Name = "h"
	live.Spec.MaxReplicas = 5
	live.ManagedFields = []metav1.ManagedFieldsEntry{
		{Manager: "ancient", Operation: metav1.ManagedFieldsOperationApply, APIVersion: "autoscaling/v2beta2", FieldsType: "FieldsV1", FieldsV1: &metav1.FieldsV1{Raw: []byte(`{"f:spec":{"f:maxReplicas":{}}}`)}},
		{Manager: "recent", Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "autoscaling/v2", FieldsType: "FieldsV1", FieldsV1: &metav1.FieldsV1{Raw: []byte(`{"f:spec":{"f:minReplicas":{}}}`)}},
	}
	got, err := m.two.Apply(live, applied(t, "v2", `spec: {maxReplicas: 6}`), "new", false)
	if err != nil {
		t.Fatal(err)
	}
	if got.(*autoscalingv2.HorizontalPodAutoscaler).Spec.MaxReplicas != 6 {
		t.Errorf("applied object %+v, want maxReplicas 6", got)
	}
	for _, entry := range entries(got) {
		if strings.HasPrefix(entry, "ancient") {
			t.Errorf("entry was not dropped: %s", entry)
		}
	}
}

// TestBrokenEntries checks that a write with invalid managed fields succeeds with the managed
// fields of the live object.
func TestBrokenEntries(t *testing.T) {
	t.Parallel()
	m := newManagers(t)
	live := blank()
	live.Spec.MaxReplicas = 5
	live = m.two.Update(blank(), live, "owner").(*autoscalingv2.HorizontalPodAutoscaler)
	for name, entry := range map[string]metav1.ManagedFieldsEntry{
		"operation": {Manager: "x", Operation: "Nope", APIVersion: "autoscaling/v2", FieldsType: "FieldsV1", FieldsV1: &metav1.FieldsV1{Raw: []byte(`{}`)}},
		"fields":    {Manager: "x", Operation: "Update", APIVersion: "autoscaling/v2", FieldsType: "FieldsV1", FieldsV1: &metav1.FieldsV1{Raw: []byte(`{"f:`)}},
		"no fields": {Manager: "x", Operation: "Update", APIVersion: "autoscaling/v2", FieldsType: "FieldsV1"},
	} {
		next := live.DeepCopy()
		next.ManagedFields = []metav1.ManagedFieldsEntry{entry}
		next.Spec.MaxReplicas = 7
		got := m.two.Update(live, next, "other")
		if got.(*autoscalingv2.HorizontalPodAutoscaler).Spec.MaxReplicas != 7 {
			t.Errorf("%s: updated object %+v, want maxReplicas 7", name, got)
		}
		found := false
		for _, e := range entries(got) {
			found = found || strings.HasPrefix(e, "other Update")
		}
		if !found {
			t.Errorf("%s: entries %q; want one of other", name, entries(got))
		}
	}
}

// TestEmptyManagedFieldsResetThem checks that an empty list of managed fields removes all managers.
func TestEmptyManagedFieldsResetThem(t *testing.T) {
	t.Parallel()
	m := newManagers(t)
	live := blank()
	live.Spec.MaxReplicas = 5
	owned := m.two.Update(blank(), live, "owner")
	next := owned.DeepCopyObject().(*autoscalingv2.HorizontalPodAutoscaler)
	next.ManagedFields = []metav1.ManagedFieldsEntry{{}}
	if got := m.two.Update(owned, next, "other"); len(got.GetManagedFields()) != 0 {
		t.Errorf("entries %q; want none", entries(got))
	}
	// If the client sends no managed fields, those of the live object are preserved.
	next = owned.DeepCopyObject().(*autoscalingv2.HorizontalPodAutoscaler)
	next.ManagedFields = nil
	if got := m.two.Update(owned, next, "other"); len(got.GetManagedFields()) == 0 {
		t.Error("no entries; want the previous entries")
	}
}

func TestSubresource(t *testing.T) {
	t.Parallel()
	m := newManagers(t)
	live, err := m.two.Apply(blank(), applied(t, "v2", "spec: {maxReplicas: 5}\nstatus: {desiredReplicas: 2}"), "user", false)
	if err != nil {
		t.Fatal(err)
	}
	// The reset fields of the resource have no owner.
	wantEntries(t, live, `user Apply autoscaling/v2 "" {f:spec:{f:maxReplicas:{}}}`)
	live, err = m.status.Apply(live, applied(t, "v2", "spec: {maxReplicas: 9}\nstatus: {desiredReplicas: 3}"), "user", true)
	if err != nil {
		t.Fatal(err)
	}
	wantEntries(t, live, `user Apply autoscaling/v2 "" {f:spec:{f:maxReplicas:{}}}`, `user Apply autoscaling/v2 "status" {f:status:{f:desiredReplicas:{}}}`)
	_, err = m.status.Apply(live, applied(t, "v2", `status: {desiredReplicas: 4}`), "another", false)
	if !apierrors.IsConflict(err) || !strings.Contains(err.Error(), `with subresource "status"`) {
		t.Errorf("error %v; want a conflict that names the subresource", err)
	}
}

func TestUnmanagedResources(t *testing.T) {
	t.Parallel()
	kind := hpa()
	resource := &rest.Resource{GroupVersion: kind.Hub.GVK.GroupVersion(), Name: "x", Kind: kind, Version: kind.Hub}
	if m := apply.NewManagers(nil, nil).For(resource); m != nil {
		t.Errorf("without schemas: %v", m)
	}
	resource.Kind = nil
	if m := apply.NewManagers(openapi.NewTypeConverter(), nil).For(resource); m != nil {
		t.Errorf("for a resource that is not stored: %v", m)
	}
}

func BenchmarkUpdate(b *testing.B) {
	m := newManagers(b)
	next := blank()
	next.Spec.MaxReplicas = 5
	live := m.two.Update(blank(), next, "owner")
	changed := live.DeepCopyObject().(*autoscalingv2.HorizontalPodAutoscaler)
	changed.Spec.MaxReplicas = 6
	b.ReportAllocs()
	for b.Loop() {
		m.two.Update(live, changed.DeepCopy(), "owner")
	}
}
