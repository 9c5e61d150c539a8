package host

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"

	"mainstay.dev/mainstay/internal/storage/kv/etcdtest"
)

var configMapsGVR = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}

// TestManyDefinitions creates a thousand definitions, changes one definition and deletes another. It checks
// that requests for other resources and watches of other resources are not affected.
func TestManyDefinitions(t *testing.T) {
	t.Parallel()
	many := 1000
	if testing.Short() {
		many = 100
	}
	r := start(t, Config{})
	c := dynamicClient(t, r)
	for _, kind := range []string{"Steady", "Changing", "Leaving"} {
		establish(t, c, definitionOf("before.example.com", kind, map[string]string{"v1": sized}, "v1"))
	}
	steady := schema.GroupVersionResource{Group: "before.example.com", Version: "v1", Resource: "steadys"}
	watched := map[string]dynamic.ResourceInterface{"ConfigMap": c.Resource(configMapsGVR).Namespace("default"), "Steady": c.Resource(steady)}
	watches := map[string]watch.Interface{}
	for kind, resource := range watched {
		w, err := resource.Watch(t.Context(), metav1.ListOptions{
			ResourceVersion: resourceVersionOf(t, resource), TimeoutSeconds: new(int64(600)),
			FieldSelector: "metadata.name!=kube-root-ca.crt", // a controller can create this object at any time
		})
		if err != nil {
			t.Fatal(err)
		}
		defer w.Stop()
		watches[kind] = w
	}

	installed := make(chan struct{})
	var busy sync.WaitGroup
	for kind, resource := range watched {
		busy.Go(func() { useUntil(t, resource, kind, installed) })
	}
	install(t, c, many)
	change(t, c, "changings.before.example.com", `{"spec":{"names":{"shortNames":["chg"]}}}`)
	if err := c.Resource(definitionsGVR).Delete(t.Context(), "leavings.before.example.com", metav1.DeleteOptions{}); err != nil {
		t.Error(err)
	}
	awaitGone(t, c.Resource(definitionsGVR), "leavings.before.example.com")
	close(installed)
	busy.Wait()

	for kind, resource := range watched {
		if _, err := resource.Create(t.Context(), objectLike(kind, "last"), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		expectUpTo(t, watches[kind], kind, "last")
	}
	awaitStatus(t, r, fmt.Sprintf("/apis/many%d.example.com/v1/kind%ds", (many-1)/10, many-1), http.StatusOK)
}

// resourceVersionOf returns the resourceVersion of a list of all objects.
func resourceVersionOf(t *testing.T, c dynamic.ResourceInterface) string {
	t.Helper()
	list, err := c.List(t.Context(), metav1.ListOptions{Limit: 1})
	if err != nil {
		t.Fatal(err)
	}
	return list.GetResourceVersion()
}

func objectLike(kind, name string) *unstructured.Unstructured {
	apiVersion := "v1"
	if kind != "ConfigMap" {
		apiVersion = "before.example.com/v1"
	}
	return &unstructured.Unstructured{Object: map[string]any{"apiVersion": apiVersion, "kind": kind, "metadata": map[string]any{"name": name}}}
}

// useUntil creates, reads and lists objects sequentially until a channel is closed.
func useUntil(t *testing.T, c dynamic.ResourceInterface, kind string, end <-chan struct{}) {
	for i := 0; ; i++ {
		select {
		case <-end:
			return
		case <-time.After(10 * time.Millisecond):
		}
		name := fmt.Sprintf("n%d", i)
		_, err := c.Create(t.Context(), objectLike(kind, name), metav1.CreateOptions{})
		_, err2 := c.Get(t.Context(), name, metav1.GetOptions{})
		_, err3 := c.List(t.Context(), metav1.ListOptions{Limit: 3})
		if err := errors.Join(err, err2, err3); err != nil {
			t.Errorf("%s while definitions are installed: %v", kind, err)
			return
		}
	}
}

// install creates definitions, four at a time.
func install(t *testing.T, c dynamic.Interface, many int) {
	t.Helper()
	next := make(chan int)
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for i := range next {
				crd := definitionOf(fmt.Sprintf("many%d.example.com", i/10), fmt.Sprintf("Kind%d", i), map[string]string{"v1": sized}, "v1")
				if _, err := c.Resource(definitionsGVR).Create(t.Context(), crd, metav1.CreateOptions{}); err != nil {
					t.Errorf("definition %d: %v", i, err)
				}
			}
		})
	}
	for i := range many {
		next <- i
	}
	close(next)
	group.Wait()
}

func change(t *testing.T, c dynamic.Interface, definition, patch string) {
	t.Helper()
	if _, err := c.Resource(definitionsGVR).Patch(t.Context(), definition, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		t.Errorf("change %s: %v", definition, err)
	}
}

// expectUpTo reads the ADDED events of a watch up to the event of the object last. It requires events of
// n0, n1 and so on before it, in order and without duplicates.
func expectUpTo(t *testing.T, w watch.Interface, kind, last string) {
	t.Helper()
	for n := 0; ; n++ {
		select {
		case event, open := <-w.ResultChan():
			if !open || event.Type != watch.Added {
				t.Errorf("watch of %s: %v %s %v", kind, open, event.Type, event.Object)
				return
			}
			name := event.Object.(*unstructured.Unstructured).GetName()
			if name == last {
				return
			}
			if name != fmt.Sprintf("n%d", n) {
				t.Errorf("watch of %s: %s instead of n%d", kind, name, n)
				return
			}
		case <-time.After(time.Minute):
			t.Errorf("watch of %s: nothing after n%d", kind, n)
			return
		}
	}
}

func awaitStatus(t *testing.T, r *running, path string, code int) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), 5*time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
		got, _ := fetch(t, r.admin, r.URL+path)
		return got == code, nil
	})
	if err != nil {
		t.Errorf("wait for status %[2]d of %[1]s: %[3]v", path, code, err)
	}
}

// TestDefinitionsOnTwoServers checks that if a definition is created, changed or deleted on one server, another
// server that shares the etcd cluster applies the change.
func TestDefinitionsOnTwoServers(t *testing.T) {
	t.Parallel()
	cluster := etcdtest.Start(t, etcdtest.Options{TLS: true})
	one, two := start(t, etcdConfig(cluster)), start(t, etcdConfig(cluster))
	first, second := dynamicClient(t, one), dynamicClient(t, two)
	const many = 20
	for i := range many {
		crd := definitionOf("shared.example.com", fmt.Sprintf("Kind%d", i), map[string]string{"v1": sized}, "v1")
		if _, err := []dynamic.Interface{first, second}[i%2].Resource(definitionsGVR).Create(t.Context(), crd, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for i := range many {
		for _, r := range []*running{one, two} {
			awaitStatus(t, r, fmt.Sprintf("/apis/shared.example.com/v1/kind%ds", i), http.StatusOK)
		}
	}
	gvr := schema.GroupVersionResource{Group: "shared.example.com", Version: "v1", Resource: "kind0s"}
	if _, err := first.Resource(gvr).Create(t.Context(), objectOf(gvr, "Kind0", "a", nil), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	seen, err := second.Resource(gvr).Get(t.Context(), "a", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if size, _, _ := unstructured.NestedInt64(seen.Object, "spec", "size"); size != 0 { // the spec was omitted, and there is no default
		t.Errorf("size %d", size)
	}

	// Both servers use the new schema after they have received the change.
	const wider = `{"spec":{"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}]}}`
	change(t, second, "kind0s.shared.example.com", wider)
	err = wait.PollUntilContextTimeout(t.Context(), 5*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		made, err := first.Resource(gvr).Create(ctx, objectOf(gvr, "Kind0", "b", map[string]any{"new": "field"}), metav1.CreateOptions{DryRun: []string{"All"}})
		if err != nil {
			return false, err
		}
		kept, _, _ := unstructured.NestedString(made.Object, "spec", "new")
		return kept == "field", nil
	})
	if err != nil {
		t.Errorf("wait for the new schema on the other server: %v", err)
	}
	if _, body := fetch(t, one.admin, one.URL+"/openapi/v3/apis/shared.example.com/v1"); !strings.Contains(body, "com.example.shared.v1.Kind19") {
		t.Error("the OpenAPI document does not contain a definition that was created on the other server")
	}

	if err := first.Resource(definitionsGVR).Delete(t.Context(), "kind0s.shared.example.com", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, r := range []*running{one, two} {
		awaitStatus(t, r, "/apis/shared.example.com/v1/kind0s", http.StatusNotFound)
		awaitStatus(t, r, "/apis/shared.example.com/v1/kind1s", http.StatusOK)
	}
}
