package e2e

import (
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

// conversionReview is the part of a ConversionReview that requests a conversion.
type conversionReview struct {
	UID               string           `json:"uid"`
	DesiredAPIVersion string           `json:"desiredAPIVersion"`
	Objects           []map[string]any `json:"objects"`
}

// converter is a conversion webhook. It converts between v1, which has spec.hostPort, and v2, which has
// spec.host and spec.port. It adds a label with the version to each converted object.
type converter struct {
	*httptest.Server
	mu struct {
		sync.Mutex
		reviews []conversionReview
		// instead is called before the conversion. If it returns true, it has handled the request.
		instead answerer
	}
}

type answerer func(w http.ResponseWriter, review conversionReview) (answered bool)

func newConverter(t *testing.T) *converter {
	t.Helper()
	c := &converter{}
	c.Server = httptest.NewUnstartedServer(c)
	c.Config.ErrorLog = log.New(io.Discard, "", 0)
	c.StartTLS()
	t.Cleanup(c.Close)
	return c
}

func (c *converter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var review struct {
		APIVersion string           `json:"apiVersion"`
		Kind       string           `json:"kind"`
		Request    conversionReview `json:"request"`
	}
	if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	c.mu.Lock()
	c.mu.reviews = append(c.mu.reviews, review.Request)
	instead := c.mu.instead
	c.mu.Unlock()
	if instead != nil && instead(w, review.Request) {
		return
	}
	for _, object := range review.Request.Objects {
		convertObject(object, review.Request.DesiredAPIVersion)
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"apiVersion": review.APIVersion, "kind": review.Kind, "response": map[string]any{
		"uid": review.Request.UID, "result": map[string]any{"status": "Success"}, "convertedObjects": review.Request.Objects,
	}})
}

func convertObject(object map[string]any, to string) {
	object["apiVersion"] = to
	_, version, _ := strings.Cut(to, "/")
	_ = unstructured.SetNestedField(object, version, "metadata", "labels", "converted-to")
	spec, _ := object["spec"].(map[string]any)
	if spec == nil {
		return
	}
	if version == "v1" {
		spec["hostPort"] = fmt.Sprintf("%v:%v", spec["host"], spec["port"])
		delete(spec, "host")
		delete(spec, "port")
		return
	}
	spec["host"], spec["port"], _ = strings.Cut(fmt.Sprint(spec["hostPort"]), ":")
	delete(spec, "hostPort")
}

// answer sets a function that handles requests instead of the conversion; nil restores the conversion.
func (c *converter) answer(instead answerer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.instead = instead
}

// asked returns the number of objects in each review since the last call.
func (c *converter) asked() []int {
	c.mu.Lock()
	defer c.mu.Unlock()
	var sizes []int
	for _, review := range c.mu.reviews {
		sizes = append(sizes, len(review.Objects))
	}
	c.mu.reviews = nil
	return sizes
}

// closing aborts the request, which closes the connection without a response.
func closing(http.ResponseWriter, conversionReview) bool { panic(http.ErrAbortHandler) }

// config returns the client configuration of the webhook for a definition.
func (c *converter) config() map[string]any {
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Certificate().Raw})
	return map[string]any{"url": c.URL + "/convert", "caBundle": base64.StdEncoding.EncodeToString(certificate)}
}

// converted is a definition with a conversion webhook and the versions v1, the storage version, and v2.
type converted struct {
	hook        *converter
	definitions dynamic.ResourceInterface
	name        string // of the definition
	v1, v2      dynamic.ResourceInterface
	resource    schema.GroupVersionResource // v2
	config      *rest.Config
	namespace   string
}

func newConverted(t *testing.T, c *clients) *converted {
	t.Helper()
	group := c.namespace + ".example.com"
	e := &converted{
		hook: newConverter(t), name: "addresses." + group, config: c.config, namespace: c.namespace,
		definitions: c.dynamic.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}),
		resource:    schema.GroupVersionResource{Group: group, Version: "v2", Resource: "addresses"},
	}
	e.v1 = c.dynamic.Resource(schema.GroupVersionResource{Group: group, Version: "v1", Resource: "addresses"}).Namespace(c.namespace)
	e.v2 = c.dynamic.Resource(e.resource).Namespace(c.namespace)
	e.define(t, group)
	return e
}

func (e *converted) define(t *testing.T, group string) {
	t.Helper()
	text := func() map[string]any { return map[string]any{"type": "string"} }
	version := func(name string, stored bool, properties map[string]any) map[string]any {
		properties["replicas"] = map[string]any{"type": "integer"}
		return map[string]any{
			"name": name, "served": true, "storage": stored,
			"subresources": map[string]any{
				"status": map[string]any{}, "scale": map[string]any{"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"},
			},
			"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "properties": map[string]any{
				"spec": map[string]any{"type": "object", "properties": properties},
				"status": map[string]any{"type": "object", "properties": map[string]any{
					"replicas": map[string]any{"type": "integer"}, "phase": text(),
				}},
			}}},
		}
	}
	v1 := version("v1", true, map[string]any{"hostPort": text()})
	v2 := version("v2", false, map[string]any{"host": text(), "port": text()})
	v2["selectableFields"] = []any{map[string]any{"jsonPath": ".spec.host"}}
	v2["additionalPrinterColumns"] = []any{map[string]any{"name": "Host", "type": "string", "jsonPath": ".spec.host"}}
	definition := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": map[string]any{"name": e.name},
		"spec": map[string]any{
			"group": group, "scope": "Namespaced", "names": map[string]any{"plural": "addresses", "kind": "Address"},
			"versions": []any{v1, v2}, "conversion": e.conversion(e.hook),
		},
	}}
	if _, err := e.definitions.Create(t.Context(), definition, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error {
		_, err := e.v2.List(t.Context(), metav1.ListOptions{})
		return err
	})
}

func (e *converted) conversion(hook *converter) map[string]any {
	return map[string]any{"strategy": "Webhook", "webhook": map[string]any{
		"clientConfig": hook.config(), "conversionReviewVersions": []any{"v1"},
	}}
}

// redefine changes the spec of the definition.
func (e *converted) redefine(t *testing.T, change func(spec map[string]any)) {
	t.Helper()
	eventually(t, func() error {
		definition, err := e.definitions.Get(t.Context(), e.name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		change(definition.Object["spec"].(map[string]any))
		_, err = e.definitions.Update(t.Context(), definition, metav1.UpdateOptions{})
		return err
	})
}

// address returns an object of the kind Address in the given version.
func (e *converted) address(version, name, host, port string) *unstructured.Unstructured {
	spec := map[string]any{"host": host, "port": port}
	if version == "v1" {
		spec = map[string]any{"hostPort": host + ":" + port}
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": e.resource.Group + "/" + version, "kind": "Address", "metadata": map[string]any{"name": name}, "spec": spec,
	}}
}

// create creates objects in v1, the storage version.
func (e *converted) create(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		if _, err := e.v1.Create(t.Context(), e.address("v1", name, "host-"+name, "1"), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

// specOf returns the spec of an object as JSON without quotes.
func specOf(obj *unstructured.Unstructured) string {
	spec, _ := obj.Object["spec"].(map[string]any)
	encoded, _ := json.Marshal(spec)
	return strings.ReplaceAll(string(encoded), `"`, "")
}
