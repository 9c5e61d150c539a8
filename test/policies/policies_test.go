package policies

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"mainstay.dev/mainstay/test/testserver"
)

func TestMain(m *testing.M) { os.Exit(testserver.Main(m)) }

// These are annotations of the test objects. expect is the expected result: "allowed", or "refused: " or
// "warns: " followed by a part of the message. becomes is JSON that the stored object must contain.
const (
	expect  = "test/expect"
	becomes = "test/becomes"
)

// TestFixtures creates the objects of each file in a namespace that has the name of the file. It first creates
// policies with their bindings and parameters, and then the test objects, and checks the result of each test
// object.
func TestFixtures(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal("there are no fixtures: ", err)
	}
	srv := testserver.New(t, testserver.Options{})
	c := newClient(t, srv.RESTConfig())
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".yaml")
		t.Run(name, func(t *testing.T) { c.try(t, name, read(t, file)) }) // not parallel, because the policies apply to all namespaces
	}
}

func read(t *testing.T, file string) []*unstructured.Unstructured {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var objects []*unstructured.Unstructured
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096)
	for {
		obj := &unstructured.Unstructured{}
		err := decoder.Decode(obj)
		if errors.Is(err, io.EOF) {
			return objects
		}
		if err != nil {
			t.Fatalf("decode the objects of %s: %v", file, err)
		}
		objects = append(objects, obj)
	}
}

type client struct {
	dynamic.Interface
	warnings *warnings
}

// warnings collects the warnings that the server sends.
type warnings struct {
	mu    sync.Mutex
	texts []string
}

// HandleWarningHeader implements rest.WarningHandler.
func (w *warnings) HandleWarningHeader(_ int, _, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.texts = append(w.texts, text)
}

func (w *warnings) take() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	texts := strings.Join(w.texts, "\n")
	w.texts = nil
	return texts
}

func newClient(t *testing.T, config *rest.Config) *client {
	t.Helper()
	w := &warnings{}
	config.WarningHandler = w
	d, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return &client{d, w}
}

func (c *client) try(t *testing.T, namespace string, objects []*unstructured.Unstructured) {
	c.must(t, namespace, `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"`+namespace+`"}}`)
	for _, obj := range objects {
		wanted, tried := obj.GetAnnotations()[expect]
		if tried {
			c.attempt(t, namespace, obj, wanted)
			continue
		}
		made := obj.DeepCopy()
		testserver.Eventually(t, 2*time.Minute, func() error { return c.create(t, namespace, made) }) // a new definition is not served immediately
		if strings.HasSuffix(obj.GetKind(), "Binding") {
			t.Cleanup(func() { c.remove(t, obj) })
		}
	}
}

func (c *client) must(t *testing.T, namespace, text string) {
	t.Helper()
	obj := &unstructured.Unstructured{}
	if err := obj.UnmarshalJSON([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := c.create(t, namespace, obj); err != nil {
		t.Fatal(err)
	}
}

func (c *client) resource(namespace string, obj *unstructured.Unstructured) dynamic.ResourceInterface {
	resource, _ := meta.UnsafeGuessKindToResource(obj.GroupVersionKind())
	switch obj.GroupVersionKind().Group {
	case "admissionregistration.k8s.io", "apiextensions.k8s.io":
		return c.Resource(resource)
	}
	if obj.GetKind() == "Namespace" {
		return c.Resource(resource)
	}
	return c.Resource(resource).Namespace(namespace)
}

// create creates obj and replaces it with the created object.
func (c *client) create(t *testing.T, namespace string, obj *unstructured.Unstructured) error {
	t.Helper()
	made, err := c.resource(namespace, obj).Create(t.Context(), obj, metav1.CreateOptions{})
	if err == nil {
		*obj = *made
	}
	return err
}

func (c *client) remove(t *testing.T, obj *unstructured.Unstructured) {
	ctx := context.WithoutCancel(t.Context()) // t.Context has ended when cleanup functions run
	if err := c.resource("", obj).Delete(ctx, obj.GetName(), metav1.DeleteOptions{}); err != nil {
		t.Error(err)
	}
}

func (c *client) attempt(t *testing.T, namespace string, obj *unstructured.Unstructured, wanted string) {
	t.Helper()
	changed := obj.GetAnnotations()[becomes]
	annotations := obj.GetAnnotations()
	delete(annotations, expect)
	delete(annotations, becomes)
	obj.SetAnnotations(annotations)
	c.warnings.take()
	err := c.create(t, namespace, obj)
	verdict, text, _ := strings.Cut(wanted, ": ")
	switch said := c.warnings.take(); {
	case verdict == "refused" && (err == nil || !strings.Contains(err.Error(), text)):
		t.Errorf("%s: %v; want it rejected with %q", obj.GetName(), err, text)
	case verdict != "refused" && err != nil:
		t.Errorf("%s: %v; want it %s", obj.GetName(), err, wanted)
	case verdict == "warns" && !strings.Contains(said, text):
		t.Errorf("%s: warnings %q, want %q", obj.GetName(), said, text)
	case verdict == "allowed" && said != "":
		t.Errorf("%s: warnings %q", obj.GetName(), said)
	}
	if changed == "" || err != nil {
		return
	}
	var want any
	if err := json.Unmarshal([]byte(changed), &want); err != nil {
		t.Fatal(err)
	}
	if missing := missing("", obj.Object, want); missing != "" {
		t.Errorf("changed object %s: %s", obj.GetName(), missing)
	}
}

// missing describes the first part of want that is missing from got, with its path and value. got may have
// additional fields, but lists must have the same elements.
func missing(path string, got, want any) string {
	switch want := want.(type) {
	case map[string]any:
		members, _ := got.(map[string]any)
		for name, value := range want {
			if text := missing(path+"."+name, members[name], value); text != "" {
				return text
			}
		}
		return ""
	case []any:
		elements, _ := got.([]any)
		if len(elements) != len(want) {
			return fmt.Sprintf("%s has %d elements, want %d", path, len(elements), len(want))
		}
		for i := range want {
			if text := missing(fmt.Sprintf("%s[%d]", path, i), elements[i], want[i]); text != "" {
				return text
			}
		}
		return ""
	}
	if fmt.Sprint(got) != fmt.Sprint(want) { // the same number can have two Go types
		return fmt.Sprintf("%s is %v, want %v", path, got, want)
	}
	return ""
}
