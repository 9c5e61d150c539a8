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

// environment contains the clients of a server.
type environment struct {
	url         string
	http        *http.Client
	dynamic     dynamic.Interface
	definitions dynamic.ResourceInterface
}

func newEnvironment(t *testing.T, srv *testserver.Server) *environment {
	t.Helper()
	config := srv.RESTConfig()
	config.WarningHandler = rest.NoWarnings{}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	d := dynamic.NewForConfigOrDie(config)
	return &environment{
		url: srv.URL(), http: client, dynamic: d,
		definitions: d.Resource(apiextensionsv1.SchemeGroupVersion.WithResource("customresourcedefinitions")),
	}
}

type response struct {
	code     int
	body     []byte
	warnings []string
}

// value decodes the body of the response, which must be a JSON object.
func (a response) value(t *testing.T) map[string]any {
	t.Helper()
	var v map[string]any
	if err := json.Unmarshal(a.body, &v); err != nil {
		t.Fatalf("decode the response %d %.300s: %v", a.code, a.body, err)
	}
	return v
}

// status decodes the body of the response as a Status. The result is empty if the body is not a Status.
func (a response) status() metav1.Status {
	var s metav1.Status
	if json.Unmarshal(a.body, &s) != nil || s.Kind != "Status" {
		return metav1.Status{}
	}
	return s
}

// send sends one request. header contains alternating names and values.
func (env *environment) send(t *testing.T, method, path string, body []byte, header ...string) response {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute) // cleanup functions use it after the test's context has ended
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, env.url+path, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json")
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := env.http.Do(req)
	if err != nil {
		t.Fatalf("send %s %s: %v", method, path, err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("read the response of %s %s: %v", method, path, err)
	}
	return response{code: resp.StatusCode, body: text, warnings: resp.Header.Values("Warning")}
}

// fromYAML parses the YAML of an object.
func fromYAML(t testing.TB, text string) *unstructured.Unstructured {
	t.Helper()
	obj := &unstructured.Unstructured{}
	if err := obj.UnmarshalJSON(toJSON(t, text)); err != nil {
		t.Fatal(err)
	}
	return obj
}

// toJSON converts YAML 1.2 to JSON. In YAML 1.2, unlike in YAML 1.1, n and y are strings.
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

// define returns a definition of a namespaced kind with the version v1 and the given schema, in YAML or JSON.
// edits are applied to the definition.
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

// withStatus enables the status subresource in all versions.
func withStatus(crd *apiextensionsv1.CustomResourceDefinition) {
	for i := range crd.Spec.Versions {
		crd.Spec.Versions[i].Subresources = &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}}
	}
}

func clusterScoped(crd *apiextensionsv1.CustomResourceDefinition) {
	crd.Spec.Scope = apiextensionsv1.ClusterScoped
}

// withVersion returns an edit that adds a copy of the first version with another name and schema.
func withVersion(t testing.TB, name, schemaText string) func(*apiextensionsv1.CustomResourceDefinition) {
	return func(crd *apiextensionsv1.CustomResourceDefinition) {
		other := define(t, "a.b", "K", schemaText).Spec.Versions[0]
		other.Name, other.Storage = name, false
		crd.Spec.Versions = append(crd.Spec.Versions, other)
	}
}

// install creates a definition, waits until it is established, and deletes it when the test ends. It returns a
// client for objects of the storage version.
func (env *environment) install(t *testing.T, crd *apiextensionsv1.CustomResourceDefinition) dynamic.ResourceInterface {
	t.Helper()
	t.Cleanup(func() { env.send(t, http.MethodDelete, definitionsPath+"/"+crd.Name, nil) })
	if a := env.send(t, http.MethodPost, definitionsPath, encode(t, crd)); a.code != http.StatusCreated {
		t.Fatalf("install %s: %d %.2000s", crd.Name, a.code, a.body)
	}
	env.await(t, crd.Name, apiextensionsv1.Established, apiextensionsv1.ConditionTrue)
	for _, version := range crd.Spec.Versions {
		if version.Storage {
			return env.resource(crd, version.Name)
		}
	}
	t.Fatal("no version is stored")
	return nil
}

// resource returns a client for objects of a version. If the objects are namespaced, it uses the namespace
// default.
func (env *environment) resource(crd *apiextensionsv1.CustomResourceDefinition, version string) dynamic.ResourceInterface {
	all := env.dynamic.Resource(schema.GroupVersionResource{Group: crd.Spec.Group, Version: version, Resource: crd.Spec.Names.Plural})
	if crd.Spec.Scope == apiextensionsv1.NamespaceScoped {
		return all.Namespace("default")
	}
	return all
}

// pathOf returns the URL path of the collection in a version, in the namespace default if the objects are
// namespaced.
func pathOf(crd *apiextensionsv1.CustomResourceDefinition, version string) string {
	path := "/apis/" + crd.Spec.Group + "/" + version
	if crd.Spec.Scope == apiextensionsv1.NamespaceScoped {
		path += "/namespaces/default"
	}
	return path + "/" + crd.Spec.Names.Plural
}

// await waits until a condition of a definition has the given status.
func (env *environment) await(t *testing.T, name string, kind apiextensionsv1.CustomResourceDefinitionConditionType, status apiextensionsv1.ConditionStatus) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	var crd *apiextensionsv1.CustomResourceDefinition
	eventually(t, func() error {
		crd = env.definition(t, name)
		if !slices.ContainsFunc(crd.Status.Conditions, func(c apiextensionsv1.CustomResourceDefinitionCondition) bool {
			return c.Type == kind && c.Status == status
		}) {
			return fmt.Errorf("%s of %s is not %s: %+v", kind, name, status, crd.Status.Conditions)
		}
		return nil
	})
	return crd
}

// definition reads a definition from the server.
func (env *environment) definition(t *testing.T, name string) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	obj, err := env.definitions.Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, crd); err != nil {
		t.Fatal(err)
	}
	return crd
}

// change updates an installed definition. It retries after a conflict.
func (env *environment) change(t *testing.T, name string, edit func(*apiextensionsv1.CustomResourceDefinition)) response {
	t.Helper()
	for {
		crd := env.definition(t, name)
		crd.APIVersion, crd.Kind = "apiextensions.k8s.io/v1", "CustomResourceDefinition"
		edit(crd)
		a := env.send(t, http.MethodPut, definitionsPath+"/"+name, encode(t, crd))
		if a.code != http.StatusConflict { // the server has written the status
			return a
		}
	}
}

// mustChange is like change, but fails the test if the update is rejected.
func (env *environment) mustChange(t *testing.T, name string, edit func(*apiextensionsv1.CustomResourceDefinition)) {
	t.Helper()
	if a := env.change(t, name, edit); a.code != http.StatusOK {
		t.Fatalf("change %s: %d %s", name, a.code, a.body)
	}
}

// eventually calls condition until it returns nil. After two minutes, it ends the test with the last error.
func eventually(t *testing.T, condition func() error) {
	t.Helper()
	testserver.Eventually(t, 2*time.Minute, condition)
}

// awaitGone waits until an object no longer exists.
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

// object returns an object with the given name, in the version v1 of the definition unless members contains
// another apiVersion. members contains the other fields of the object, in YAML.
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

// causes returns the sorted causes of an API error, each with its field and message.
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

// members returns the fields of an object without its type and metadata.
func members(obj *unstructured.Unstructured) map[string]any {
	rest := map[string]any{}
	for name, value := range obj.Object {
		if name != "apiVersion" && name != "kind" && name != "metadata" {
			rest[name] = value
		}
	}
	return rest
}

// wantMembers compares the fields of an object, except for its type and metadata, with the YAML in text.
func wantMembers(t *testing.T, obj *unstructured.Unstructured, text string) {
	t.Helper()
	want := toJSON(t, text)
	if got := string(encode(t, members(obj))); got != canonical(t, want) {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// canonical returns JSON with sorted fields. It does not change numbers.
func canonical(t *testing.T, text []byte) string {
	t.Helper()
	obj := &unstructured.Unstructured{}
	wrapped := slices.Concat([]byte(`{"apiVersion":"v1","kind":"K","v":`), text, []byte("}"))
	if err := obj.UnmarshalJSON(wrapped); err != nil {
		t.Fatal(err)
	}
	return string(encode(t, obj.Object["v"]))
}
