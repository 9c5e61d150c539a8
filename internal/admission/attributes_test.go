package admission_test

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"

	"mainstay.dev/mainstay/internal/admission"
	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/request"
	"mainstay.dev/mainstay/internal/rest"
)

var (
	one = autoscalingv1.SchemeGroupVersion.WithKind("HorizontalPodAutoscaler")
	two = autoscalingv2.SchemeGroupVersion.WithKind("HorizontalPodAutoscaler")
)

// hpas returns a resource with the hub version v2 and the version v1, which has a defaulting function. The
// resource counts conversions from the hub in converted.
func hpas(converted *int) *rest.Resource {
	hub := &codec.Version{GVK: two, New: func() codec.Object { return new(autoscalingv2.HorizontalPodAutoscaler) }}
	old := &codec.Version{
		GVK: one, New: func() codec.Object { return new(autoscalingv1.HorizontalPodAutoscaler) },
		Default: func(obj codec.Object) {
			if h := obj.(*autoscalingv1.HorizontalPodAutoscaler); h.Spec.MaxReplicas == 0 {
				h.Spec.MaxReplicas = 7
			}
		},
		ToHub: func(obj codec.Object) (codec.Object, error) {
			in := obj.(*autoscalingv1.HorizontalPodAutoscaler)
			out := &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: in.ObjectMeta}
			out.Spec.MaxReplicas = in.Spec.MaxReplicas
			return out, nil
		},
		FromHub: func(obj codec.Object) (codec.Object, error) {
			*converted++
			in := obj.(*autoscalingv2.HorizontalPodAutoscaler)
			if in.Name == "broken" {
				return nil, errors.New("cannot be said")
			}
			out := &autoscalingv1.HorizontalPodAutoscaler{ObjectMeta: in.ObjectMeta}
			out.Spec.MaxReplicas = in.Spec.MaxReplicas
			return out, nil
		},
	}
	kind := &codec.Kind{Hub: hub, Versions: []*codec.Version{hub, old}}
	return &rest.Resource{GroupVersion: one.GroupVersion(), Name: "horizontalpodautoscalers", Namespaced: true, Kind: kind, Version: old}
}

func hpa(replicas int32) *autoscalingv2.HorizontalPodAutoscaler {
	h := &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Name: "h"}}
	h.Spec.MaxReplicas = replicas
	return h
}

func replicas(t *testing.T, a *admission.Attributes) int32 {
	t.Helper()
	obj, err := a.ObjectIn(t.Context(), one)
	if err != nil {
		t.Fatal(err)
	}
	if gvk := obj.GetObjectKind().GroupVersionKind(); gvk != one {
		t.Errorf("type %s", gvk)
	}
	return obj.(*autoscalingv1.HorizontalPodAutoscaler).Spec.MaxReplicas
}

type mutate func(*admission.Attributes) error

func (mutate) Name() string                                              { return "mutate" }
func (mutate) Handles(admission.Operation) bool                          { return true }
func (m mutate) Mutate(_ context.Context, a *admission.Attributes) error { return m(a) }

// TestObjectIn checks that a converted object is reused until the object changes in any way.
func TestObjectIn(t *testing.T) {
	t.Parallel()
	converted := 0
	a := &admission.Attributes{Request: admission.Request{Operation: admission.Update, Resource: hpas(&converted)}, Object: hpa(1), Old: hpa(9)}
	expect := func(what string, want int32, conversions int) {
		t.Helper()
		if got := replicas(t, a); got != want || converted != conversions {
			t.Errorf("%s: %d after %d conversions; want %d after %d", what, got, converted, want, conversions)
		}
	}
	expect("first", 1, 1)
	expect("again", 1, 1)
	if old, err := a.OldIn(t.Context(), one); err != nil || old.(*autoscalingv1.HorizontalPodAutoscaler).Spec.MaxReplicas != 9 || converted != 2 {
		t.Errorf("old %v, %v after %d conversions", old, err, converted)
	}
	a.Object = hpa(2)
	expect("replaced", 2, 3)
	a.Object.(*autoscalingv2.HorizontalPodAutoscaler).Spec.MaxReplicas = 3
	a.InvalidateConversions()
	expect("changed", 3, 4)
	err := admission.Chain{mutate(func(a *admission.Attributes) error {
		a.Object.(*autoscalingv2.HorizontalPodAutoscaler).Spec.MaxReplicas = 4
		return nil
	}), mutate(func(*admission.Attributes) error {
		expect("changed by a plugin before", 4, 5)
		expect("and not since", 4, 5)
		return nil
	})}.Mutate(t.Context(), a)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.OldIn(t.Context(), one); err != nil || converted != 5 {
		t.Errorf("OldIn after a change of Object: error %v, %d conversions", err, converted)
	}
	// The hub version is the object itself, except for its TypeMeta.
	a.Object.GetObjectKind().SetGroupVersionKind(two)
	if obj, err := a.ObjectIn(t.Context(), two); obj != a.Object || err != nil {
		t.Errorf("in the hub version: %v, %v", obj, err)
	}
	if _, err := a.ObjectIn(t.Context(), schema.GroupVersionKind{Group: "autoscaling", Version: "v3", Kind: "HorizontalPodAutoscaler"}); err == nil {
		t.Error("ObjectIn succeeded for an unknown version")
	}
	if _, err := a.ObjectIn(t.Context(), one.GroupVersion().WithKind("Scale")); err == nil {
		t.Error("ObjectIn succeeded for another kind")
	}
	a.Object.(*autoscalingv2.HorizontalPodAutoscaler).Name = "broken"
	a.InvalidateConversions()
	if _, err := a.ObjectIn(t.Context(), one); err == nil {
		t.Error("ObjectIn did not return the error of the conversion")
	}
	a.Object, a.Old = nil, nil
	if obj, err := a.ObjectIn(t.Context(), one); obj != nil || err != nil {
		t.Errorf("ObjectIn without an object: %v, %v", obj, err)
	}
	if old, err := a.OldIn(t.Context(), one); old != nil || err != nil {
		t.Errorf("OldIn without an object: %v, %v", old, err)
	}
}

// TestSetObjectIn checks that SetObjectIn converts an object in another version to the hub version and applies
// defaults.
func TestSetObjectIn(t *testing.T) {
	t.Parallel()
	converted := 0
	a := &admission.Attributes{Request: admission.Request{Operation: admission.Update, Resource: hpas(&converted)}, Object: hpa(1)}
	if err := a.SetObjectIn(t.Context(), one, &autoscalingv1.HorizontalPodAutoscaler{}); err != nil {
		t.Fatal(err)
	}
	if got := a.Object.(*autoscalingv2.HorizontalPodAutoscaler); got.Spec.MaxReplicas != 7 || got.GroupVersionKind() != two {
		t.Errorf("from v1: %+v", got)
	}
	if err := a.SetObjectIn(t.Context(), two, hpa(3)); err != nil {
		t.Fatal(err)
	}
	if replicas(t, a) != 3 {
		t.Errorf("from v2: %+v", a.Object)
	}
	if err := a.SetObjectIn(t.Context(), one.GroupVersion().WithKind("Scale"), hpa(3)); err == nil {
		t.Error("SetObjectIn succeeded for another kind")
	}
}

// TestConvertByKind checks that Kind.Convert is used if it is set.
func TestConvertByKind(t *testing.T) {
	t.Parallel()
	converted := 0
	r := hpas(&converted)
	var asked []string
	r.Kind.Convert = func(_ context.Context, objects []codec.Object, to *codec.Version) ([]codec.Object, error) {
		asked = append(asked, to.GVK.Version)
		if to.GVK == one {
			obj, err := r.Version.FromHub(objects[0])
			return []codec.Object{obj}, err
		}
		obj, err := r.Version.ToHub(objects[0])
		return []codec.Object{obj}, err
	}
	a := &admission.Attributes{Request: admission.Request{Resource: r}, Object: hpa(1)}
	if got := replicas(t, a); got != 1 {
		t.Errorf("replicas %d, want 1", got)
	}
	if err := a.SetObjectIn(t.Context(), one, &autoscalingv1.HorizontalPodAutoscaler{}); err != nil || a.Object.(*autoscalingv2.HorizontalPodAutoscaler).Spec.MaxReplicas != 7 {
		t.Errorf("SetObjectIn: object %v, error %v; want maxReplicas 7", a.Object, err)
	}
	if diff := cmp.Diff([]string{"v1", "v2"}, asked); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

// TestReinvocation checks that all plugins run exactly once more and can read the state of the first pass.
func TestReinvocation(t *testing.T) {
	t.Parallel()
	var calls []string
	var asking mutate
	asking = func(a *admission.Attributes) error {
		calls = append(calls, fmt.Sprint("asking ", a.Reinvoked(), " ", a.State(asking)))
		a.SetState(asking, 1)
		a.Reinvoke()
		return nil
	}
	other := mutator{recorder{name: "other", calls: &calls}}
	a := &admission.Attributes{Request: admission.Request{Operation: admission.Create}}
	if err := (admission.Chain{other, asking}).Mutate(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	want := []string{"mutate other", "asking false <nil>", "mutate other", "asking true 1"}
	if diff := cmp.Diff(want, calls); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	calls = nil
	a = &admission.Attributes{Request: admission.Request{Operation: admission.Create}}
	refused := errors.New("refused")
	err := admission.Chain{asking, mutator{recorder{name: "refusing", calls: &calls, err: refused}}}.Mutate(t.Context(), a)
	if !errors.Is(err, refused) || len(calls) != 2 {
		t.Errorf("after a refusal: %v, %q", err, calls)
	}
}

func TestAnnotate(t *testing.T) {
	t.Parallel()
	ctx := request.NewContext(t.Context(), &request.Info{}, request.Received(httptest.NewRequest("GET", "/", nil).Context()))
	request.SetAudit(ctx, &request.Audit{})
	a := &admission.Attributes{}
	for _, key := range []string{"", "a", "a/", "/a", "a/b/c", "A_/b", "example.com/not good"} {
		if err := a.Annotate(ctx, key, "x"); err == nil {
			t.Errorf("the invalid key %q is accepted", key)
		}
	}
	var wg sync.WaitGroup
	for i := range 10 {
		wg.Go(func() {
			if err := errors.Join(a.Annotate(ctx, "example.com/same", "x"), a.Annotate(ctx, fmt.Sprint("example.com/", i), "x")); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if err := a.Annotate(ctx, "example.com/same", "y"); !errors.Is(err, request.ErrAnnotated) {
		t.Errorf("another value: %v", err)
	}
	// If the request is retried, its audit event keeps the first annotation.
	again := &admission.Attributes{}
	if err := again.Annotate(ctx, "example.com/same", "y"); err != nil {
		t.Error(err)
	}
	if got := request.AnnotationsFrom(ctx); len(got) != 11 || got["example.com/same"] != "x" {
		t.Errorf("annotations %v", got)
	}
}

func TestEquivalents(t *testing.T) {
	t.Parallel()
	converted := 0
	r, other := hpas(&converted), hpas(&converted)
	asked := admission.Request{Resource: r}
	if got := asked.Equivalents(); len(got) != 1 || got[0] != r {
		t.Errorf("equivalents of a resource without others: %v", got)
	}
	asked.EquivalentsOf = func(*rest.Resource) []*rest.Resource { return nil }
	if got := asked.Equivalents(); len(got) != 1 || got[0] != r {
		t.Errorf("equivalents of a resource that is no longer served: %v", got)
	}
	asked.EquivalentsOf = func(*rest.Resource) []*rest.Resource { return []*rest.Resource{other, r} }
	if got := asked.Equivalents(); len(got) != 2 {
		t.Errorf("equivalents of a resource with others: %v", got)
	}
}

// FuzzAnnotationKey checks that all keys accepted by the fast path are valid.
func FuzzAnnotationKey(f *testing.F) {
	for _, seed := range []string{"pod-security.kubernetes.io/enforce-policy", "a/b", "a/", "/b", "-a/b", "a-.b/c", "A/b", "a/b/c", "a..b/c", strings.Repeat("a", 254) + "/b"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, key string) {
		a := admission.Attributes{}
		err := a.Annotate(t.Context(), key, "v")
		valid := strings.Count(key, "/") == 1 && len(validation.IsQualifiedName(key)) == 0
		if (err == nil) != valid {
			t.Errorf("%q: error %v; valid according to the rules: %t", key, err, valid)
		}
	})
}
