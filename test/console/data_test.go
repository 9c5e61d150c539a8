package console

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-rod/rod"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"

	"mainstay.dev/mainstay/test/testserver"
)

// fixture is a server with a browser and a "mainstay console" command. The subtests of a test share a fixture,
// because starting a browser is slow.
type fixture struct {
	server  *testserver.Server
	browser *rod.Browser
	console *console
	client  dynamic.Interface
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	browser := newBrowser(t)
	s := testserver.New(t, testserver.Options{})
	client, err := dynamic.NewForConfig(s.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	return &fixture{server: s, browser: browser, console: startConsole(t, s.Kubeconfig()), client: client}
}

// open opens a page in a new tab.
func (f *fixture) open(t *testing.T, path string) *page {
	t.Helper()
	return openPage(t, f.browser, f.console, path)
}

// create creates the objects of a YAML stream, including their status, and returns the last one.
func (f *fixture) create(t *testing.T, manifests string) *unstructured.Unstructured {
	t.Helper()
	var last *unstructured.Unstructured
	for _, object := range decodeObjects(t, manifests) {
		resource := f.resource(object)
		created, err := resource.Create(t.Context(), object, metav1.CreateOptions{FieldManager: "creator"})
		if err != nil {
			t.Fatalf("create %s %s: %v", object.GetKind(), object.GetName(), err)
		}
		if status, ok := object.Object["status"]; ok {
			created.Object["status"] = status
			if created, err = resource.UpdateStatus(t.Context(), created, metav1.UpdateOptions{FieldManager: "controller"}); err != nil {
				t.Fatalf("write the status of %s %s: %v", object.GetKind(), object.GetName(), err)
			}
		}
		last = created
	}
	return last
}

// apply applies an object as a field manager. It overrides conflicts.
func (f *fixture) apply(t *testing.T, manager, manifest string) *unstructured.Unstructured {
	t.Helper()
	object := decodeObjects(t, manifest)[0]
	applied, err := f.resource(object).Apply(t.Context(), object.GetName(), object, metav1.ApplyOptions{FieldManager: manager, Force: true})
	if err != nil {
		t.Fatalf("apply %s %s: %v", object.GetKind(), object.GetName(), err)
	}
	return applied
}

// patch changes an object with a merge patch as a field manager.
func (f *fixture) patch(t *testing.T, object *unstructured.Unstructured, manager, patch string) {
	t.Helper()
	if _, err := f.resource(object).Patch(t.Context(), object.GetName(), types.MergePatchType, []byte(patch), metav1.PatchOptions{FieldManager: manager}); err != nil {
		t.Fatalf("patch %s: %v", object.GetName(), err)
	}
}

func (f *fixture) delete(t *testing.T, object *unstructured.Unstructured) {
	t.Helper()
	if err := f.resource(object).Delete(t.Context(), object.GetName(), metav1.DeleteOptions{}); err != nil {
		t.Fatalf("delete %s: %v", object.GetName(), err)
	}
}

// get reads the current state of an object.
func (f *fixture) get(t *testing.T, object *unstructured.Unstructured) *unstructured.Unstructured {
	t.Helper()
	found, err := f.resource(object).Get(t.Context(), object.GetName(), metav1.GetOptions{})
	if err != nil {
		t.Fatalf("get %s: %v", object.GetName(), err)
	}
	return found
}

// awaitMissing waits until an object no longer exists on the server.
func (f *fixture) awaitMissing(t *testing.T, object *unstructured.Unstructured) {
	t.Helper()
	testserver.Eventually(t, pageTimeout, func() error {
		_, err := f.resource(object).Get(t.Context(), object.GetName(), metav1.GetOptions{})
		if !apierrors.IsNotFound(err) {
			return fmt.Errorf("%s %s exists (%v)", object.GetKind(), object.GetName(), err)
		}
		return nil
	})
}

// resource returns a client for the kind and namespace of an object.
func (f *fixture) resource(object *unstructured.Unstructured) dynamic.ResourceInterface {
	resource := f.client.Resource(resourceOf(object))
	if namespace := object.GetNamespace(); namespace != "" {
		return resource.Namespace(namespace)
	}
	return resource
}

// resourceOf derives the name of a resource from the kind of an object. The result is correct for the kinds
// that these tests use.
func resourceOf(object *unstructured.Unstructured) schema.GroupVersionResource {
	kind := object.GroupVersionKind()
	return kind.GroupVersion().WithResource(strings.ToLower(kind.Kind) + "s")
}

// objectsPath returns the URL path of the page that shows an object.
func objectsPath(object *unstructured.Unstructured) string {
	resource := resourceOf(object)
	group, namespace := resource.Group, object.GetNamespace()
	if group == "" {
		group = "core"
	}
	if namespace == "" {
		namespace = "-"
	}
	return "/console/objects/" + group + "/" + resource.Resource + "/" + namespace + "/" + object.GetName()
}

func decodeObjects(t testing.TB, manifests string) []*unstructured.Unstructured {
	t.Helper()
	var objects []*unstructured.Unstructured
	decoder := yaml.NewYAMLOrJSONDecoder(strings.NewReader(manifests), 4096)
	for {
		object := &unstructured.Unstructured{}
		err := decoder.Decode(&object.Object)
		if errors.Is(err, io.EOF) {
			return objects
		}
		if err != nil {
			t.Fatalf("decode a manifest: %v", err)
		}
		if len(object.Object) > 0 {
			objects = append(objects, object)
		}
	}
}

// namespace creates a namespace and waits for its service account, which pods require.
func (f *fixture) namespace(t *testing.T, name string) {
	t.Helper()
	f.create(t, "apiVersion: v1\nkind: Namespace\nmetadata: {name: "+name+"}\n")
	accounts := f.client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "serviceaccounts"}).Namespace(name)
	testserver.Eventually(t, pageTimeout, func() error {
		_, err := accounts.Get(t.Context(), "default", metav1.GetOptions{})
		return err
	})
}

// createMany creates count ConfigMaps named item-00000, item-00001 and so on.
func (f *fixture) createMany(t *testing.T, namespace string, count int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	configMaps := f.client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}).Namespace(namespace)
	names := make(chan int)
	var group sync.WaitGroup
	for range 16 {
		group.Go(func() {
			for i := range names {
				object := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": fmt.Sprintf("item-%05d", i)}}}
				if _, err := configMaps.Create(ctx, object, metav1.CreateOptions{}); err != nil {
					t.Errorf("create a ConfigMap: %v", err)
				}
			}
		})
	}
	for i := range count {
		names <- i
	}
	close(names)
	group.Wait()
}

// deployment returns the manifest of a Deployment with the given number of replicas.
func deployment(namespace, name string, replicas int) string {
	return fmt.Sprintf(`apiVersion: apps/v1
kind: Deployment
metadata:
  name: %[2]s
  namespace: %[1]s
  labels: {app: %[2]s}
spec:
  replicas: %[3]d
  selector: {matchLabels: {app: %[2]s}}
  template:
    metadata:
      labels: {app: %[2]s}
    spec:
      containers:
      - name: main
        image: example.com/%[2]s:1
---
`, namespace, name, replicas)
}

// ownedBy returns the value of metadata.ownerReferences for an object with the given owner, in YAML.
func ownedBy(owner *unstructured.Unstructured) string {
	return fmt.Sprintf(`[{apiVersion: %s, kind: %s, name: %s, uid: %s, controller: true, blockOwnerDeletion: true}]`, owner.GetAPIVersion(), owner.GetKind(), owner.GetName(), owner.GetUID())
}

// workload creates a Deployment with a ReplicaSet and two pods, as the controllers would.
func (f *fixture) workload(t *testing.T, namespace, name string) (deploy, replicaSet *unstructured.Unstructured) {
	t.Helper()
	deploy = f.create(t, strings.TrimSuffix(deployment(namespace, name, 2), "---\n")+`status:
  replicas: 2
  readyReplicas: 1
  conditions:
  - {type: Available, status: "True", reason: MinimumReplicasAvailable, message: Deployment has minimum availability., lastTransitionTime: "2026-11-23T10:00:00Z"}
  - {type: Progressing, status: "False", reason: ProgressDeadlineExceeded, message: The deadline was exceeded., lastTransitionTime: "2026-11-23T10:00:00Z"}
`)
	replicaSet = f.create(t, fmt.Sprintf(`apiVersion: apps/v1
kind: ReplicaSet
metadata: {name: %[2]s-7d4b9, namespace: %[1]s, labels: {app: %[2]s}, ownerReferences: %[3]s}
spec:
  replicas: 2
  selector: {matchLabels: {app: %[2]s}}
  template:
    metadata: {labels: {app: %[2]s}}
    spec: {containers: [{name: main, image: "example.com/%[2]s:1"}]}
`, namespace, name, ownedBy(deploy)))
	for _, suffix := range []string{"x1", "x2"} {
		f.create(t, fmt.Sprintf(`apiVersion: v1
kind: Pod
metadata: {name: %[2]s-7d4b9-%[4]s, namespace: %[1]s, labels: {app: %[2]s}, ownerReferences: %[3]s}
spec:
  serviceAccountName: default
  containers:
  - name: main
    image: example.com/%[2]s:1
    envFrom: [{configMapRef: {name: settings}}]
    env: [{name: PASSWORD, valueFrom: {secretKeyRef: {name: credentials, key: password}}}]
  volumes:
  - {name: settings, configMap: {name: settings}}
`, namespace, name, ownedBy(replicaSet), suffix))
	}
	return deploy, replicaSet
}

// clickInDialog clicks the button with the given text in the open dialog.
func (p *page) clickInDialog(text string) {
	p.t.Helper()
	p.clickXPath(fmt.Sprintf(`//dialog[@open]//button[normalize-space(.)=%q]`, text))
}

// clickXPath clicks the element that matches an XPath.
func (p *page) clickXPath(xpath string) {
	p.t.Helper()
	p.check(p.find(xpath).Timeout(pageTimeout).Click("left", 1))
}

// eval returns the value of a JavaScript expression as a string.
func (p *page) eval(expression string) string {
	p.t.Helper()
	found, err := p.Eval("() => String(" + expression + ")")
	p.check(err)
	return found.Value.Str()
}

// awaitText waits until the value of a JavaScript expression, as a string, is want.
func (p *page) awaitText(expression, want string) {
	p.t.Helper()
	var got string
	p.poll(func() bool {
		found, err := p.Eval("() => String(" + expression + ")")
		if err == nil {
			got = found.Value.Str()
		}
		return err == nil && got == want
	}, func() string { return fmt.Sprintf("%s is %q, want %q", expression, got, want) })
}
