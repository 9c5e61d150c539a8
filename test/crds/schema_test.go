package crds

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// pruning tests the removal of unknown fields.
var pruning = []behavior{
	{"create, update and patch", pruneWrites},
	{"status", pruneStatus},
	{"stored objects", pruneStored},
	{"preserved unknown fields", prunePreserved},
	{"embedded resources", pruneEmbedded},
	{"preserveUnknownFields", pruneNever},
}

const known = `{type: object, properties: {a: {type: object, properties: {b: {type: string}}}, status: {type: object, properties: {ok: {type: boolean}}}}}`

func pruneWrites(t *testing.T, env *environment) {
	crd := define(t, "writes.prune.example.com", "Note", known)
	notes := env.install(t, crd)
	made := create(t, notes, object(t, crd, "n", `{a: {b: x, c: 1}, d: 2, list: [{}]}`))
	wantMembers(t, made, `{a: {b: x}}`)
	made.Object["e"] = "x"
	updated, err := notes.Update(t.Context(), made, metav1.UpdateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	wantMembers(t, updated, `{a: {b: x}}`)
	if updated.GetResourceVersion() != made.GetResourceVersion() {
		t.Error("an object was written although nothing has changed")
	}
	wantMembers(t, patch(t, notes, "n", `{"a":{"b":"y","z":1},"f":{}}`), `{a: {b: y}}`)
}

func pruneStatus(t *testing.T, env *environment) {
	crd := define(t, "status.prune.example.com", "Note", known, withStatus)
	notes := env.install(t, crd)
	made := create(t, notes, object(t, crd, "n", `{status: {ok: true}}`))
	wantMembers(t, made, `{}`)
	wantMembers(t, patch(t, notes, "n", `{"a":{"b":"x"},"status":{"ok":true,"no":1}}`, "status"), `{status: {ok: true}}`)
}

func pruneStored(t *testing.T, env *environment) {
	crd := define(t, "stored.prune.example.com", "Note", anything)
	notes := env.install(t, crd)
	create(t, notes, object(t, crd, "n", `{a: {b: x, c: 1}, d: 2}`))
	env.mustChange(t, crd.Name, func(crd *apiextensionsv1.CustomResourceDefinition) {
		crd.Spec.Versions = define(t, "a.b", "K", known).Spec.Versions
	})
	wantMembers(t, get(t, notes, "n"), `{a: {b: x}}`)
	list, err := notes.List(t.Context(), metav1.ListOptions{})
	if err != nil || len(list.Items) != 1 {
		t.Fatal(err)
	}
	wantMembers(t, &list.Items[0], `{a: {b: x}}`)
}

func prunePreserved(t *testing.T, env *environment) {
	crd := define(t, "preserved.prune.example.com", "Note", `{type: object, properties: {a: {type: object, x-kubernetes-preserve-unknown-fields: true, properties: {known: {type: object, properties: {x: {type: string}}}}}, any: {x-kubernetes-preserve-unknown-fields: true}}}`)
	wantMembers(t, create(t, env.install(t, crd), object(t, crd, "n", `{a: {more: {deep: [1]}, known: {x: y, z: 1}}, any: [{thing: 1}], not: 1}`)),
		`{a: {more: {deep: [1]}, known: {x: y}}, any: [{thing: 1}]}`)
}

func pruneEmbedded(t *testing.T, env *environment) {
	crd := define(t, "embedded.prune.example.com", "Note", `
type: object
properties:
  e: {type: object, x-kubernetes-embedded-resource: true, properties: {spec: {type: object, properties: {a: {type: string}}}}}
  p: {type: object, x-kubernetes-embedded-resource: true, x-kubernetes-preserve-unknown-fields: true}
`)
	notes := env.install(t, crd)
	made := create(t, notes, object(t, crd, "n", `
e: {apiVersion: foo/v1, kind: Foo, metadata: {name: x, unspecified: bar}, spec: {a: b, c: d}, more: 1}
p: {apiVersion: foo/v1, kind: Foo, metadata: {name: x, unspecified: bar}, more: 1}`))
	wantMembers(t, made, `
e: {apiVersion: foo/v1, kind: Foo, metadata: {name: x}, spec: {a: b}}
p: {apiVersion: foo/v1, kind: Foo, metadata: {name: x}, more: 1}`)
	_, err := notes.Create(t.Context(), object(t, crd, "bad", `{e: {kind: Foo, metadata: {name: no/name, labels: {"no label": x}}}, p: {apiVersion: "", kind: ""}}`), metav1.CreateOptions{})
	if !apierrors.IsInvalid(err) {
		t.Fatalf("create an object with invalid embedded objects: %v, want Invalid", err)
	}
	text := strings.Join(causes(err), "\n")
	for _, field := range []string{"e.apiVersion: Required", "e.metadata.name: Invalid", "e.metadata.labels: Invalid", "p.apiVersion: ", "p.kind: "} {
		if !strings.Contains(text, field) {
			t.Errorf("%s is missing in\n%s", field, text)
		}
	}
}

// pruneNever checks that v1 definitions cannot set preserveUnknownFields: they always prune unknown fields
// unless their schema preserves them.
func pruneNever(t *testing.T, env *environment) {
	crd := define(t, "never.prune.example.com", "Note", known)
	crd.Spec.PreserveUnknownFields = true
	a := env.send(t, http.MethodPost, definitionsPath, encode(t, crd))
	if a.code != http.StatusUnprocessableEntity || !strings.Contains(string(a.body), `"field":"spec.preserveUnknownFields"`) {
		t.Errorf("create a definition with preserveUnknownFields: %d %s, want 422 for the field", a.code, a.body)
	}
}

// defaulting tests default values of missing fields.
var defaulting = []behavior{
	{"create, update, read and watch", defaultEverywhere},
	{"null", defaultNull},
	{"defaults of each version", defaultVersions},
	{"metadata of embedded resources", defaultEmbedded},
	{"invalid defaults are rejected", defaultValid},
}

const filled = `
type: object
properties:
  spec:
    type: object
    default: {}
    properties:
      a: {type: string, default: A}
      b: {type: object, properties: {c: {type: integer, default: 3}}}
      l: {type: array, items: {type: object, properties: {x: {type: string, default: X}}}}
      m: {type: object, additionalProperties: {type: object, properties: {x: {type: string, default: X}}}}
  status: {type: object, properties: {s: {type: string, default: S}}}
`

func defaultEverywhere(t *testing.T, env *environment) {
	crd := define(t, "all.default.example.com", "Note", filled, withStatus)
	notes := env.install(t, crd)
	wantMembers(t, create(t, notes, object(t, crd, "n", `{}`)), `{spec: {a: A}}`)
	wantMembers(t, patch(t, notes, "n", `{"spec":{"a":null,"b":{},"l":[{},{"x":"y"}],"m":{"k":{}}}}`), `{spec: {a: A, b: {c: 3}, l: [{x: X}, {x: y}], m: {k: {x: X}}}}`)
	wantMembers(t, patch(t, notes, "n", `{"status":{}}`, "status"), `{spec: {a: A, b: {c: 3}, l: [{x: X}, {x: y}], m: {k: {x: X}}}, status: {s: S}}`)
	// A default that is added later applies to stored objects when they are read.
	env.mustChange(t, crd.Name, func(crd *apiextensionsv1.CustomResourceDefinition) {
		spec := crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
		spec.Properties["later"] = schemaProps{Type: "string", Default: &apiextensionsv1.JSON{Raw: []byte(`"L"`)}}
		crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"] = spec
	})
	const want = `{spec: {a: A, b: {c: 3}, l: [{x: X}, {x: y}], m: {k: {x: X}}, later: L}, status: {s: S}}`
	read := get(t, notes, "n")
	wantMembers(t, read, want)
	list, err := notes.List(t.Context(), metav1.ListOptions{})
	if err != nil || len(list.Items) != 1 {
		t.Fatal(err)
	}
	wantMembers(t, &list.Items[0], want)
	events, err := notes.Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer events.Stop()
	event := <-events.ResultChan()
	if diff := cmp.Diff(asAny(t, encode(t, read)), asAny(t, encode(t, event.Object))); diff != "" {
		t.Errorf("watched (-want +got):\n%s", diff)
	}
}

func asAny(t *testing.T, text []byte) any {
	t.Helper()
	var v any
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

func defaultNull(t *testing.T, env *environment) {
	crd := define(t, "null.default.example.com", "Note", `{type: object, properties: {spec: {type: object, properties: {a: {type: string, default: A}, b: {type: string, nullable: true, default: B}, c: {type: string}, d: {type: string, nullable: true}}}}}`)
	notes := env.install(t, crd)
	wantMembers(t, create(t, notes, object(t, crd, "n", `{spec: {a: null, b: null, c: null, d: null}}`)), `{spec: {a: A, b: null, d: null}}`)
}

func defaultVersions(t *testing.T, env *environment) {
	crd := define(t, "version.default.example.com", "Note", `{type: object, properties: {a: {type: string, default: one}}}`,
		withVersion(t, "v2", `{type: object, properties: {a: {type: string}, b: {type: string, default: two}}}`))
	notes := env.install(t, crd)
	create(t, notes, object(t, crd, "n", `{}`))
	wantMembers(t, get(t, env.resource(crd, "v2"), "n"), `{a: one}`) // the object was stored with the defaults of v1
	create(t, env.resource(crd, "v2"), object(t, crd, "m", `{apiVersion: version.default.example.com/v2}`))
	wantMembers(t, get(t, notes, "m"), `{a: one}`)
}

// defaultEmbedded checks that embedded resources receive defaults, and that unknown metadata fields in defaults
// are pruned.
func defaultEmbedded(t *testing.T, env *environment) {
	crd := define(t, "embedded.default.example.com", "Note", `
type: object
properties:
  members:
    type: object
    x-kubernetes-embedded-resource: true
    properties:
      apiVersion: {type: string, default: foos/v1}
      kind: {type: string, default: Foo}
      metadata: {type: object, properties: {name: {type: string, default: Bar}, unknown: {type: string, default: unknown}}}
  metadata:
    type: object
  whole:
    type: object
    x-kubernetes-embedded-resource: true
    x-kubernetes-preserve-unknown-fields: true
    properties:
      apiVersion: {type: string, default: foos/v1}
      kind: {type: string, default: Foo}
      metadata: {type: object, default: {name: Bar, unknown: unknown}}
  resource:
    type: object
    x-kubernetes-embedded-resource: true
    properties: {foo: {type: string}}
    default: {apiVersion: foos/v1, kind: Foo, metadata: {name: Bar, unknown: unknown}}
  around:
    type: object
    properties:
      in: {type: object, x-kubernetes-embedded-resource: true, x-kubernetes-preserve-unknown-fields: true}
    default: {in: {apiVersion: foos/v1, kind: Foo, metadata: {name: Bar, unknown: unknown}}}
`)
	notes := env.install(t, crd)
	const foo = `{apiVersion: foos/v1, kind: Foo, metadata: {name: Bar}}`
	const want = `{members: ` + foo + `, whole: ` + foo + `, resource: ` + foo + `, around: {in: ` + foo + `}}`
	wantMembers(t, create(t, notes, object(t, crd, "n", `{members: {metadata: {}}, whole: {}}`)), want)
	wantMembers(t, get(t, notes, "n"), want)
}

func defaultValid(t *testing.T, env *environment) {
	for text, want := range map[string]string{
		`{type: object, properties: {a: {type: integer, default: x}}}`:                                                 "a].default",
		`{type: object, properties: {a: {type: integer, minimum: 5, default: 1}}}`:                                     "a].default",
		`{type: object, properties: {a: {type: object, default: {b: 1}, properties: {c: {type: string}}}}}`:            "a].default",
		`{type: object, properties: {metadata: {type: object, properties: {name: {type: string, default: x}}}}}`:       "metadata",
		`{type: object, properties: {a: {type: string, enum: [x], default: y}}}`:                                       "a].default",
		`{type: object, properties: {a: {type: object, default: {}, required: [b], properties: {b: {type: string}}}}}`: "a].default",
		`{type: object, properties: {a: {anyOf: [{default: x}], type: string}}}`:                                       "default",
		`{type: object, properties: {a: {type: string, default: x, x-kubernetes-validations: [{rule: self == "y"}]}}}`: "a].default",
	} {
		crd := define(t, "valid.default.example.com", "Note", text)
		a := env.send(t, http.MethodPost, definitionsPath+"?dryRun=All", encode(t, crd))
		if got := strings.Join(causesOf(a.status()), "\n"); a.code != http.StatusUnprocessableEntity || !strings.Contains(got, want) {
			t.Errorf("create a definition with schema %s: %d %s, want 422 with cause %q", text, a.code, a.body, want)
		}
	}
}
