package crds

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// responses tests the responses to unusual requests and definitions.
var responses = []behavior{
	{"lists have the declared listKind", responsesListKind},
	{"order of subresources in discovery", responsesDiscovery},
	{"status codes", responsesCodes},
	{"invalid metadata of embedded resources", responsesEmbedded},
	{"OpenAPI v2 of schemas that preserve unknown fields", responsesOpenAPIV2},
}

func withStatusAndScale(crd *apiextensionsv1.CustomResourceDefinition) {
	withStatus(crd)
	for i := range crd.Spec.Versions {
		crd.Spec.Versions[i].Subresources.Scale = &apiextensionsv1.CustomResourceSubresourceScale{
			SpecReplicasPath: ".spec.replicas", StatusReplicasPath: ".status.replicas",
		}
	}
}

func withListKind(name string) func(*apiextensionsv1.CustomResourceDefinition) {
	return func(crd *apiextensionsv1.CustomResourceDefinition) { crd.Spec.Names.ListKind = name }
}

func responsesListKind(t *testing.T, env *environment) {
	crd := define(t, "listkind.responses.example.com", "Note", anything, withListKind("Notebook"))
	notes := env.install(t, crd)
	check := func(what string, a response) {
		t.Helper()
		if kind := a.value(t)["kind"]; a.code != http.StatusOK || kind != "Notebook" {
			t.Errorf("%s: %d %s, want kind Notebook", what, a.code, a.body)
		}
	}
	check("an empty list", env.send(t, http.MethodGet, pathOf(crd, "v1"), nil))
	create(t, notes, object(t, crd, "a", `{}`))
	check("a list", env.send(t, http.MethodGet, pathOf(crd, "v1"), nil))
	check("a list of all namespaces", env.send(t, http.MethodGet, "/apis/"+crd.Spec.Group+"/v1/notes", nil))
	check("a page", env.send(t, http.MethodGet, pathOf(crd, "v1")+"?limit=1", nil))
	if a := env.send(t, http.MethodGet, pathOf(crd, "v1"), nil, "Accept", "application/yaml"); !strings.Contains(string(a.body), "kind: Notebook\n") {
		t.Errorf("YAML: %s", a.body)
	}
	check("what was deleted", env.send(t, http.MethodDelete, pathOf(crd, "v1"), nil))
	if a := env.send(t, http.MethodGet, "/openapi/v3/apis/"+crd.Spec.Group+"/v1", nil); !strings.Contains(string(a.body), "com.example.responses.listkind.v1.Notebook") {
		t.Errorf("OpenAPI: %d %.300s", a.code, a.body)
	}
}

func responsesDiscovery(t *testing.T, env *environment) {
	crd := define(t, "order.responses.example.com", "Note", anything, withStatusAndScale)
	env.install(t, crd)
	var list struct{ Resources []struct{ Name string } }
	a := env.send(t, http.MethodGet, "/apis/"+crd.Spec.Group+"/v1", nil)
	if err := json.Unmarshal(a.body, &list); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, r := range list.Resources {
		names = append(names, r.Name)
	}
	if got := strings.Join(names, " "); got != "notes notes/status notes/scale" {
		t.Errorf("resources: %s", got)
	}
}

func responsesCodes(t *testing.T, env *environment) {
	crd := define(t, "codes.responses.example.com", "Note", anything, withStatusAndScale)
	notes := env.install(t, crd)
	create(t, notes, object(t, crd, "a", `{spec: {replicas: 1}}`))
	in, across := pathOf(crd, "v1"), "/apis/"+crd.Spec.Group+"/v1/notes"
	whole := string(encode(t, object(t, crd, "b", `{}`)))
	const strategic = "application/strategic-merge-patch+json"
	for _, test := range []struct {
		method, path, body, contentType string
		code                            int
		message                         string
	}{
		{"PATCH", in + "/a", `{}`, strategic, 415, "accepted media types include"},
		{"PATCH", in + "/a/status", `{}`, strategic, 415, "accepted media types include"},
		{"PATCH", in + "/a/scale", `{"spec":{"replicas":2}}`, strategic, 415, "accepted media types include"},
		{"POST", across, whole, "", 404, ""},
		{"DELETE", across, "", "", 404, ""},
		{"DELETE", across + "/a", "", "", 404, ""},
		{"PUT", across + "/a", whole, "", 404, ""},
		{"POST", in, `{}`, "", 400, "the object provided is unrecognized (must be of type Note): Object 'Kind' is missing in '{}' ({})"},
		{"PUT", in + "/a", `{"metadata":{"name":"a"}}`, "", 400, "Object 'Kind' is missing in '{"},
	} {
		header := []string{}
		if test.contentType != "" {
			header = []string{"Content-Type", test.contentType}
		}
		if a := env.send(t, test.method, test.path, []byte(test.body), header...); a.code != test.code || !strings.Contains(a.status().Message, test.message) {
			t.Errorf("%s %s %s: %d %s, want %d with message %q", test.method, test.path, test.body, a.code, a.body, test.code, test.message)
		}
	}
	if a := env.send(t, http.MethodGet, across, nil); a.code != http.StatusOK {
		t.Errorf("a list across namespaces: %d", a.code)
	}
}

func responsesEmbedded(t *testing.T, env *environment) {
	crd := define(t, "embedded.responses.example.com", "Note",
		`{type: object, properties: {spec: {type: object, properties: {pods: {type: array, items: {type: object, x-kubernetes-embedded-resource: true, x-kubernetes-preserve-unknown-fields: true}}}}}}`)
	env.install(t, crd)
	for _, test := range []struct{ pod, message string }{
		{`{apiVersion: v1, kind: Pod, metadata: {name: 7}}`,
			`Note in version "v1" cannot be handled as a Note: spec.pods[0].metadata: Invalid value: {"name":7}: json: cannot unmarshal number into Go struct field ObjectMeta.name of type string`},
		{`{apiVersion: v1, kind: 7}`, `Note in version "v1" cannot be handled as a Note: spec.pods[0].kind: Invalid value: 7: must be a string`},
		{`{apiVersion: 1, kind: Pod}`, `Note in version "v1" cannot be handled as a Note: spec.pods[0].apiVersion: Invalid value: 1: must be a string`},
	} {
		a := env.send(t, http.MethodPost, pathOf(crd, "v1"), encode(t, object(t, crd, "a", `{spec: {pods: [`+test.pod+`]}}`)))
		if a.code != http.StatusBadRequest || a.status().Message != test.message {
			t.Errorf("create an object with pod %s: %d %s, want 400 with message %q", test.pod, a.code, a.body, test.message)
		}
	}
}

// responsesOpenAPIV2 checks that OpenAPI v2 lists no properties for an object that may have unlisted
// properties, because clients would reject these.
func responsesOpenAPIV2(t *testing.T, env *environment) {
	crd := define(t, "v2.responses.example.com", "Note", `{type: object, description: A note., x-kubernetes-preserve-unknown-fields: true, properties: {spec: {type: object}}}`)
	env.install(t, crd)
	eventually(t, func() error {
		var document struct{ Definitions map[string]json.RawMessage }
		a := env.send(t, http.MethodGet, "/openapi/v2", nil)
		if err := json.Unmarshal(a.body, &document); err != nil {
			t.Fatal(err)
		}
		model := string(document.Definitions["com.example.responses.v2.v1.Note"])
		const want = `{"type":"object","x-kubernetes-group-version-kind":[{"group":"v2.responses.example.com","kind":"Note","version":"v1"}]}`
		if model != want {
			return fmt.Errorf("the model is %s", model)
		}
		return nil
	})
}
