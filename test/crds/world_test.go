package crds

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"mainstay.dev/mainstay/test/testserver"
)

const (
	definitionsPath = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
	mergePatch      = types.MergePatchType
)

// world is a server, and how a test speaks with it.
type world struct {
	url         string
	http        *http.Client
	dynamic     dynamic.Interface
	definitions dynamic.ResourceInterface
}

func newWorld(t *testing.T, srv *testserver.Server) *world {
	t.Helper()
	config := srv.RESTConfig()
	config.WarningHandler = rest.NoWarnings{}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	d := dynamic.NewForConfigOrDie(config)
	return &world{
		url: srv.URL(), http: client, dynamic: d,
		definitions: d.Resource(apiextensionsv1.SchemeGroupVersion.WithResource("customresourcedefinitions")),
	}
}

// answer is what the server says to one request.
type answer struct {
	code     int
	body     []byte
	warnings []string
}

// value is the answer as JSON.
func (a answer) value(t *testing.T) map[string]any {
	t.Helper()
	var v map[string]any
	if err := json.Unmarshal(a.body, &v); err != nil {
		t.Fatalf("%d %.300s: %v", a.code, a.body, err)
	}
	return v
}

// status is the answer as a Status, empty where it is none.
func (a answer) status() metav1.Status {
	var s metav1.Status
	if json.Unmarshal(a.body, &s) != nil || s.Kind != "Status" {
		return metav1.Status{}
	}
	return s
}

// send sends one request; header holds names and values in turn.
func (w *world) send(t *testing.T, method, path string, body []byte, header ...string) answer {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute) // tests clean up with it
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, w.url+path, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json")
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := w.http.Do(req)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	return answer{code: resp.StatusCode, body: text, warnings: resp.Header.Values("Warning")}
}

// fromYAML reads an object.
func fromYAML(t testing.TB, text string) *unstructured.Unstructured {
	t.Helper()
	obj := &unstructured.Unstructured{}
	if err := obj.UnmarshalJSON(toJSON(t, text)); err != nil {
		t.Fatal(err)
	}
	return obj
}

// toJSON reads YAML 1.2, where n and y are text.
func toJSON(t testing.TB, text string) []byte {
	t.Helper()
	var value any
	if err := yaml.Unmarshal([]byte(text), &value); err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	return encode(t, value)
}

func encode(t testing.TB, v any) []byte {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// define makes a definition of namespaced objects in v1, of a kind and with
// the schema (YAML or JSON) of their whole; edits change it before it is sent.
func define(t testing.TB, group, kind, schemaText string, edits ...func(*apiextensionsv1.CustomResourceDefinition)) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	var props apiextensionsv1.JSONSchemaProps
	decoder := json.NewDecoder(bytes.NewReader(toJSON(t, schemaText)))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&props); err != nil {
		t.Fatalf("%v in\n%s", err, schemaText)
	}
	plural := strings.ToLower(kind) + "s"
	crd := &apiextensionsv1.CustomResourceDefinition{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apiextensions.k8s.io/v1", Kind: "CustomResourceDefinition"},
		ObjectMeta: metav1.ObjectMeta{Name: plural + "." + group},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: group, Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Kind: kind, Plural: plural},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1", Served: true, Storage: true, Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &props},
			}},
		},
	}
	for _, edit := range edits {
		edit(crd)
	}
	return crd
}

// withStatus gives all versions the status subresource.
func withStatus(crd *apiextensionsv1.CustomResourceDefinition) {
	for i := range crd.Spec.Versions {
		crd.Spec.Versions[i].Subresources = &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}}
	}
}

func clusterScoped(crd *apiextensionsv1.CustomResourceDefinition) {
	crd.Spec.Scope = apiextensionsv1.ClusterScoped
}

// withVersion adds a served version like the first, with its own schema.
func withVersion(t testing.TB, name, schemaText string) func(*apiextensionsv1.CustomResourceDefinition) {
	return func(crd *apiextensionsv1.CustomResourceDefinition) {
		other := define(t, "a.b", "K", schemaText).Spec.Versions[0]
		other.Name, other.Storage = name, false
		crd.Spec.Versions = append(crd.Spec.Versions, other)
	}
}

// install creates a definition, waits until it is established, and takes it
// away at the end of the test. It returns a client of the objects of its
// stored version.
func (w *world) install(t *testing.T, crd *apiextensionsv1.CustomResourceDefinition) dynamic.ResourceInterface {
	t.Helper()
	t.Cleanup(func() { w.send(t, http.MethodDelete, definitionsPath+"/"+crd.Name, nil) })
	if a := w.send(t, http.MethodPost, definitionsPath, encode(t, crd)); a.code != http.StatusCreated {
		t.Fatalf("install %s: %d %.2000s", crd.Name, a.code, a.body)
	}
	w.await(t, crd.Name, apiextensionsv1.Established, apiextensionsv1.ConditionTrue)
	for _, version := range crd.Spec.Versions {
		if version.Storage {
			return w.resource(crd, version.Name)
		}
	}
	t.Fatal("no version is stored")
	return nil
}

// resource is a client of the objects of a version, those in the default
// namespace where they have one.
func (w *world) resource(crd *apiextensionsv1.CustomResourceDefinition, version string) dynamic.ResourceInterface {
	all := w.dynamic.Resource(schema.GroupVersionResource{Group: crd.Spec.Group, Version: version, Resource: crd.Spec.Names.Plural})
	if crd.Spec.Scope == apiextensionsv1.NamespaceScoped {
		return all.Namespace("default")
	}
	return all
}

// pathOf is where the objects of a version are.
func pathOf(crd *apiextensionsv1.CustomResourceDefinition, version string) string {
	path := "/apis/" + crd.Spec.Group + "/" + version
	if crd.Spec.Scope == apiextensionsv1.NamespaceScoped {
		path += "/namespaces/default"
	}
	return path + "/" + crd.Spec.Names.Plural
}

// await waits until a condition of a definition has a status.
func (w *world) await(t *testing.T, name string, kind apiextensionsv1.CustomResourceDefinitionConditionType, status apiextensionsv1.ConditionStatus) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	var crd *apiextensionsv1.CustomResourceDefinition
	eventually(t, func() error {
		crd = w.definition(t, name)
		if !slices.ContainsFunc(crd.Status.Conditions, func(c apiextensionsv1.CustomResourceDefinitionCondition) bool {
			return c.Type == kind && c.Status == status
		}) {
			return fmt.Errorf("%s of %s is not %s: %+v", kind, name, status, crd.Status.Conditions)
		}
		return nil
	})
	return crd
}

// definition reads a definition.
func (w *world) definition(t *testing.T, name string) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	obj, err := w.definitions.Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, crd); err != nil {
		t.Fatal(err)
	}
	return crd
}

// change edits an installed definition.
func (w *world) change(t *testing.T, name string, edit func(*apiextensionsv1.CustomResourceDefinition)) answer {
	t.Helper()
	for {
		crd := w.definition(t, name)
		crd.APIVersion, crd.Kind = "apiextensions.k8s.io/v1", "CustomResourceDefinition"
		edit(crd)
		a := w.send(t, http.MethodPut, definitionsPath+"/"+name, encode(t, crd))
		if a.code != http.StatusConflict { // the server writes the status meanwhile
			return a
		}
	}
}

// mustChange is change, which has to be taken.
func (w *world) mustChange(t *testing.T, name string, edit func(*apiextensionsv1.CustomResourceDefinition)) {
	t.Helper()
	if a := w.change(t, name, edit); a.code != http.StatusOK {
		t.Fatalf("change %s: %d %s", name, a.code, a.body)
	}
}

// eventually calls the condition until it returns no error, and fails the test
// with the last one after half a minute.
func eventually(t *testing.T, condition func() error) {
	t.Helper()
	testserver.Eventually(t, 2*time.Minute, condition)
}

// awaitGone waits until an object is no more.
func awaitGone(t *testing.T, c dynamic.ResourceInterface, name string) {
	t.Helper()
	eventually(t, func() error {
		_, err := c.Get(t.Context(), name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("%s is still there: %v", name, err)
	})
}

// object makes one of the definition, in v1, of its name and the YAML of its
// other members.
func object(t testing.TB, crd *apiextensionsv1.CustomResourceDefinition, name, members string) *unstructured.Unstructured {
	t.Helper()
	var value map[string]any
	obj := &unstructured.Unstructured{Object: map[string]any{}}
	decoder := json.NewDecoder(bytes.NewReader(toJSON(t, members)))
	decoder.UseNumber()
	if err := decoder.Decode(&value); err != nil {
		t.Fatal(err)
	}
	if value == nil {
		value = map[string]any{}
	}
	if _, found := value["apiVersion"]; !found {
		value["apiVersion"] = crd.Spec.Group + "/v1"
	}
	value["kind"] = crd.Spec.Names.Kind
	if err := obj.UnmarshalJSON(encode(t, value)); err != nil {
		t.Fatal(err)
	}
	if obj.GetName() == "" {
		obj.SetName(name)
	}
	return obj
}

func create(t *testing.T, c dynamic.ResourceInterface, obj *unstructured.Unstructured) *unstructured.Unstructured {
	t.Helper()
	made, err := c.Create(t.Context(), obj, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("create %s: %v", obj.GetName(), err)
	}
	return made
}

func get(t *testing.T, c dynamic.ResourceInterface, name string) *unstructured.Unstructured {
	t.Helper()
	obj, err := c.Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return obj
}

func patch(t *testing.T, c dynamic.ResourceInterface, name, body string, subresources ...string) *unstructured.Unstructured {
	t.Helper()
	obj, err := c.Patch(t.Context(), name, mergePatch, []byte(body), metav1.PatchOptions{}, subresources...)
	if err != nil {
		t.Fatalf("patch %s with %s: %v", name, body, err)
	}
	return obj
}

// causes are what an error says, each as field and message, in order of their
// text.
func causes(err error) []string {
	status, ok := err.(apierrors.APIStatus)
	if !ok {
		return []string{fmt.Sprint(err)}
	}
	return causesOf(status.Status())
}

func causesOf(status metav1.Status) []string {
	var all []string
	if status.Details != nil {
		for _, cause := range status.Details.Causes {
			all = append(all, cause.Field+": "+cause.Message)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// members are what an object has beside its type and metadata.
func members(obj *unstructured.Unstructured) map[string]any {
	rest := map[string]any{}
	for name, value := range obj.Object {
		if name != "apiVersion" && name != "kind" && name != "metadata" {
			rest[name] = value
		}
	}
	return rest
}

// wantMembers compares what an object has beside its type and metadata with
// YAML.
func wantMembers(t *testing.T, obj *unstructured.Unstructured, text string) {
	t.Helper()
	want := toJSON(t, text)
	if got := string(encode(t, members(obj))); got != canonical(t, want) {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// canonical is JSON with its members in order and numbers as they were.
func canonical(t *testing.T, text []byte) string {
	t.Helper()
	obj := &unstructured.Unstructured{}
	wrapped := slices.Concat([]byte(`{"apiVersion":"v1","kind":"K","v":`), text, []byte("}"))
	if err := obj.UnmarshalJSON(wrapped); err != nil {
		t.Fatal(err)
	}
	return string(encode(t, obj.Object["v"]))
}
