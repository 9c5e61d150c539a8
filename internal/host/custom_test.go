package host

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"
)

var definitionsGVR = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

func dynamicClient(t testing.TB, r *running) dynamic.Interface {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", r.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	config.QPS = -1
	return dynamic.NewForConfigOrDie(config)
}

// definitionOf returns a definition of cluster-scoped objects. specs maps versions to the schemas of the spec.
// order contains the versions; the first one is the storage version.
func definitionOf(group, kind string, specs map[string]string, order ...string) *unstructured.Unstructured {
	plural := strings.ToLower(kind) + "s"
	var versions []any
	for i, name := range order {
		var spec any
		if err := json.Unmarshal([]byte(specs[name]), &spec); err != nil {
			panic(err)
		}
		versions = append(versions, map[string]any{
			"name": name, "served": true, "storage": i == 0, "subresources": map[string]any{"status": map[string]any{}},
			"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "properties": map[string]any{
				"spec": spec, "status": map[string]any{"type": "object", "properties": map[string]any{"phase": map[string]any{"type": "string"}}},
			}}},
		})
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": map[string]any{"name": plural + "." + group},
		"spec": map[string]any{"group": group, "scope": "Cluster", "names": map[string]any{"plural": plural, "kind": kind}, "versions": versions},
	}}
}

// establish creates a definition and waits until it is established.
func establish(t testing.TB, c dynamic.Interface, crd *unstructured.Unstructured) {
	t.Helper()
	if _, err := c.Resource(definitionsGVR).Create(t.Context(), crd, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	awaitCondition(t, c, crd.GetName(), "Established", "True")
}

func awaitCondition(t testing.TB, c dynamic.Interface, name, kind, status string) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), 2*time.Millisecond, 2*time.Minute, true, func(ctx context.Context) (bool, error) {
		crd, err := c.Resource(definitionsGVR).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		return conditionOf(crd, kind) == status, nil
	})
	if err != nil {
		t.Fatalf("wait for %s of %s: %v", kind, name, err)
	}
}

func conditionOf(crd *unstructured.Unstructured, kind string) string {
	conditions, _, _ := unstructured.NestedSlice(crd.Object, "status", "conditions")
	for _, c := range conditions {
		if condition := c.(map[string]any); condition["type"] == kind {
			return fmt.Sprint(condition["status"])
		}
	}
	return ""
}

func objectOf(gvr schema.GroupVersionResource, kind, name string, spec map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": gvr.GroupVersion().String(), "kind": kind, "metadata": map[string]any{"name": name}, "spec": spec,
	}}
}

const sized = `{"type":"object","properties":{"size":{"type":"integer","default":3,"maximum":9},"color":{"type":"string"}}}`

func TestCustomResources(t *testing.T) {
	t.Parallel()
	r := start(t, Config{})
	c := dynamicClient(t, r)
	establish(t, c, definitionOf("life.example.com", "Widget", map[string]string{"v1": sized}, "v1"))
	gvr := schema.GroupVersionResource{Group: "life.example.com", Version: "v1", Resource: "widgets"}
	widgets := c.Resource(gvr)

	made, err := widgets.Create(t.Context(), objectOf(gvr, "Widget", "a", map[string]any{"color": "red", "nope": true}), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err) // an established definition must be served
	}
	if diff := cmp.Diff(map[string]any{"color": "red", "size": int64(3)}, made.Object["spec"]); diff != "" {
		t.Errorf("pruned and defaulted (-want +got):\n%s", diff)
	}
	_, err = widgets.Create(t.Context(), objectOf(gvr, "Widget", "b", map[string]any{"size": int64(10)}), metav1.CreateOptions{})
	if !apierrors.IsInvalid(err) {
		t.Errorf("too large: %v", err)
	}

	status := made.DeepCopy()
	status.Object["status"] = map[string]any{"phase": "Up"}
	status.Object["spec"] = map[string]any{"size": int64(1)}
	if made, err = widgets.UpdateStatus(t.Context(), status, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if size, _, _ := unstructured.NestedInt64(made.Object, "spec", "size"); size != 3 || made.GetGeneration() != 1 {
		t.Errorf("after a status update, size is %d and the generation is %d", size, made.GetGeneration())
	}
	made, err = widgets.Patch(t.Context(), "a", types.MergePatchType, []byte(`{"spec":{"size":5}}`), metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if made.GetGeneration() != 2 {
		t.Errorf("generation %d after a change of the spec", made.GetGeneration())
	}
	if code, body := fetch(t, r.admin, r.URL+"/apis/life.example.com/v1/widgets/a", "Accept", "application/json;as=Table;v=v1;g=meta.k8s.io"); code != http.StatusOK || !strings.Contains(body, `"cells":["a",`) {
		t.Errorf("table: %d %s", code, body)
	}
	applied := objectOf(gvr, "Widget", "applied", map[string]any{"color": "blue"})
	made, err = widgets.Apply(t.Context(), "applied", applied, metav1.ApplyOptions{FieldManager: "m1"})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]any{"color": "blue", "size": int64(3)}, made.Object["spec"]); diff != "" {
		t.Errorf("applied (-want +got):\n%s", diff)
	}
	applied.Object["spec"] = map[string]any{"color": "green"}
	if _, err = widgets.Apply(t.Context(), "applied", applied, metav1.ApplyOptions{FieldManager: "m2"}); !apierrors.IsConflict(err) {
		t.Errorf("apply by another manager: %v", err)
	}
}

// TestDefaultStatus checks that the response to a creation contains the stored status, not the status
// in the request.
func TestDefaultStatus(t *testing.T) {
	t.Parallel()
	r := start(t, Config{})
	c := dynamicClient(t, r)
	crd := definitionOf("phase.example.com", "Widget", map[string]string{"v1": sized}, "v1")
	versions, _, err := unstructured.NestedSlice(crd.Object, "spec", "versions")
	if err != nil {
		t.Fatal(err)
	}
	status := map[string]any{"phase": "Pending"}
	if err := unstructured.SetNestedMap(versions[0].(map[string]any), status, "schema", "openAPIV3Schema", "properties", "status", "default"); err != nil {
		t.Fatal(err)
	}
	if err := unstructured.SetNestedSlice(crd.Object, versions, "spec", "versions"); err != nil {
		t.Fatal(err)
	}
	establish(t, c, crd)
	gvr := schema.GroupVersionResource{Group: "phase.example.com", Version: "v1", Resource: "widgets"}
	sent := objectOf(gvr, "Widget", "a", nil)
	sent.Object["status"] = map[string]any{"phase": "Up"}
	made, err := c.Resource(gvr).Create(t.Context(), sent, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	read, err := c.Resource(gvr).Get(t.Context(), "a", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, obj := range []*unstructured.Unstructured{made, read} {
		if diff := cmp.Diff(status, obj.Object["status"]); diff != "" {
			t.Errorf("status (-want +got):\n%s", diff)
		}
	}
}

// TestDefinitionChanges checks that a change of a definition ends only the affected watches, and that the
// change has taken effect when the write returns.
func TestDefinitionChanges(t *testing.T) {
	t.Parallel()
	r := start(t, Config{})
	c := dynamicClient(t, r)
	establish(t, c, definitionOf("a.example.com", "Widget", map[string]string{"v1": sized}, "v1"))
	establish(t, c, definitionOf("b.example.com", "Gadget", map[string]string{"v1": sized}, "v1"))
	widgets := schema.GroupVersionResource{Group: "a.example.com", Version: "v1", Resource: "widgets"}
	gadgets := schema.GroupVersionResource{Group: "b.example.com", Version: "v1", Resource: "gadgets"}
	ends, err := c.Resource(widgets).Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	stays, err := c.Resource(gadgets).Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer stays.Stop()

	const wider = `{"type":"object","properties":{"size":{"type":"integer","maximum":99}}}`
	changed := definitionOf("a.example.com", "Widget", map[string]string{"v1": wider, "v2": wider}, "v1", "v2")
	current, err := c.Resource(definitionsGVR).Get(t.Context(), changed.GetName(), metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	changed.SetResourceVersion(current.GetResourceVersion())
	if _, err := c.Resource(definitionsGVR).Update(t.Context(), changed, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	v2 := widgets.GroupResource().WithVersion("v2")
	if _, err := c.Resource(v2).Create(t.Context(), objectOf(v2, "Widget", "a", map[string]any{"size": int64(50)}), metav1.CreateOptions{}); err != nil {
		t.Errorf("right after the response: %v", err)
	}
	select {
	case event, open := <-ends.ResultChan():
		if open {
			t.Errorf("the watch of the changed resource received %s %v, want its end", event.Type, event.Object)
		}
	case <-time.After(20 * time.Second):
		t.Error("the watch of the changed resource did not end")
	}
	if _, err := c.Resource(gadgets).Create(t.Context(), objectOf(gadgets, "Gadget", "a", nil), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if event, open := <-stays.ResultChan(); !open || event.Type != watch.Added {
		t.Errorf("the watch of another resource: %v %v", open, event)
	}
	if _, body := fetch(t, r.admin, r.URL+"/apis/a.example.com"); !strings.Contains(body, `"preferredVersion":{"groupVersion":"a.example.com/v2"`) {
		t.Errorf("discovery: %s", body)
	}
	if code, _ := fetch(t, r.admin, r.URL+"/openapi/v3/apis/a.example.com/v2"); code != http.StatusOK {
		t.Errorf("OpenAPI: %d", code)
	}
}

// TestDefinitionDeleted checks that the deletion of a definition first deletes its objects, and then the
// definition and its discovery and OpenAPI documents.
func TestDefinitionDeleted(t *testing.T) {
	t.Parallel()
	r := start(t, Config{})
	c := dynamicClient(t, r)
	crd := definitionOf("gone.example.com", "Widget", map[string]string{"v1": sized}, "v1")
	establish(t, c, crd)
	gvr := schema.GroupVersionResource{Group: "gone.example.com", Version: "v1", Resource: "widgets"}
	held := objectOf(gvr, "Widget", "held", nil)
	held.SetFinalizers([]string{"example.com/hold"})
	for _, obj := range []*unstructured.Unstructured{held, objectOf(gvr, "Widget", "free", nil)} {
		if _, err := c.Resource(gvr).Create(t.Context(), obj, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Resource(definitionsGVR).Delete(t.Context(), crd.GetName(), metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Resource(gvr).Create(t.Context(), objectOf(gvr, "Widget", "late", nil), metav1.CreateOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("created while terminating: %v", err)
	}
	if _, err := c.Resource(gvr).Apply(t.Context(), "late", objectOf(gvr, "Widget", "late", nil), metav1.ApplyOptions{FieldManager: "m"}); !apierrors.IsForbidden(err) {
		t.Errorf("applied while terminating: %v", err)
	}
	awaitGone(t, c.Resource(gvr), "free")
	if _, err := c.Resource(definitionsGVR).Get(t.Context(), crd.GetName(), metav1.GetOptions{}); err != nil {
		t.Errorf("the definition was deleted before its objects: %v", err)
	}
	if _, err := c.Resource(gvr).Patch(t.Context(), "held", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	awaitGone(t, c.Resource(definitionsGVR), crd.GetName())
	err := wait.PollUntilContextTimeout(t.Context(), 2*time.Millisecond, 2*time.Minute, true, func(context.Context) (bool, error) {
		code, _ := fetch(t, r.admin, r.URL+"/apis/gone.example.com")
		return code == http.StatusNotFound, nil
	})
	if err != nil {
		t.Errorf("the group of the definition still exists: %v", err)
	}
}

func awaitGone(t testing.TB, c dynamic.ResourceInterface, name string) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), 2*time.Millisecond, 2*time.Minute, true, func(ctx context.Context) (bool, error) {
		_, err := c.Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return true, nil
		}
		return false, err
	})
	if err != nil {
		t.Fatalf("wait for the removal of %s: %v", name, err)
	}
}

// TestDefinitionNames checks that a name belongs to the first definition that uses the name, until this
// definition is deleted.
func TestDefinitionNames(t *testing.T) {
	t.Parallel()
	c := dynamicClient(t, start(t, Config{}))
	first := definitionOf("names.example.com", "Thing", map[string]string{"v1": sized}, "v1")
	establish(t, c, first)
	second := definitionOf("names.example.com", "Stuff", map[string]string{"v1": sized}, "v1")
	if err := unstructured.SetNestedField(second.Object, "Thing", "spec", "names", "kind"); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Resource(definitionsGVR).Create(t.Context(), second, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	awaitCondition(t, c, second.GetName(), "NamesAccepted", "False")
	gvr := schema.GroupVersionResource{Group: "names.example.com", Version: "v1", Resource: "stuffs"}
	if _, err := c.Resource(gvr).List(t.Context(), metav1.ListOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("list before the names are accepted: %v", err)
	}
	if err := c.Resource(definitionsGVR).Delete(t.Context(), first.GetName(), metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	awaitCondition(t, c, second.GetName(), "Established", "True")
	if _, err := c.Resource(gvr).List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Errorf("list after the definition is established: %v", err)
	}
}

// TestDefinitionsSurviveRestart checks that the server serves stored definitions from its first response on.
func TestDefinitionsSurviveRestart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	gvr := schema.GroupVersionResource{Group: "kept.example.com", Version: "v1", Resource: "widgets"}
	r := start(t, Config{Storage: StorageConfig{DataDir: dir}})
	c := dynamicClient(t, r)
	establish(t, c, definitionOf("kept.example.com", "Widget", map[string]string{"v1": sized}, "v1"))
	if _, err := c.Resource(gvr).Create(t.Context(), objectOf(gvr, "Widget", "a", nil), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	r.end(t)
	c = dynamicClient(t, start(t, Config{Storage: StorageConfig{DataDir: dir}}))
	if _, err := c.Resource(gvr).Get(t.Context(), "a", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
}

// TestDefinitionDryRun checks that a definition that a dry run creates is not served.
func TestDefinitionDryRun(t *testing.T) {
	t.Parallel()
	r := start(t, Config{})
	c := dynamicClient(t, r)
	crd := definitionOf("dry.example.com", "Widget", map[string]string{"v1": sized}, "v1")
	if _, err := c.Resource(definitionsGVR).Create(t.Context(), crd, metav1.CreateOptions{DryRun: []string{"All"}}); err != nil {
		t.Fatal(err)
	}
	if code, _ := fetch(t, r.admin, r.URL+"/apis/dry.example.com"); code != http.StatusNotFound {
		t.Errorf("GET of the group: code %d, want 404", code)
	}
}
