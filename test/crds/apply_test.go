package crds

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// applying tests server-side apply.
var applying = []behavior{
	{"create, share and force", applyShared},
	{"lists and maps merge by type", applyLists},
	{"unknown fields are rejected", applyUnknown},
	{"empty maps and lists are stored", applyEmptied},
	{"null in a field that is not nullable is rejected", applyNull},
	{"managed fields of a removed version", applyRemovedVersion},
	{"definitions", applyDefinition},
}

func applyShared(t *testing.T, env *environment) {
	crd := define(t, "shared.apply.example.com", "Note", `{type: object, properties: {spec: {type: object, properties: {a: {type: integer}}}}}`)
	notes := env.install(t, crd)
	made, err := notes.Apply(t.Context(), "n", object(t, crd, "n", `{spec: {a: 1}}`), metav1.ApplyOptions{FieldManager: "one"})
	if err != nil {
		t.Fatal(err)
	}
	again, err := notes.Apply(t.Context(), "n", object(t, crd, "n", `{spec: {a: 1}}`), metav1.ApplyOptions{FieldManager: "one"})
	if err != nil || again.GetResourceVersion() != made.GetResourceVersion() {
		t.Errorf("applied again: %v", err)
	}
	_, err = notes.Apply(t.Context(), "n", object(t, crd, "n", `{spec: {a: 2}}`), metav1.ApplyOptions{FieldManager: "two"})
	if !apierrors.IsConflict(err) {
		t.Errorf("apply a field of another manager: %v, want Conflict", err)
	}
	forced, err := notes.Apply(t.Context(), "n", object(t, crd, "n", `{spec: {a: 2}}`), metav1.ApplyOptions{FieldManager: "two", Force: true})
	if err != nil || len(forced.GetManagedFields()) != 1 {
		t.Errorf("apply with force: %v, %v; want one manager", forced, err)
	}
	if _, err := notes.Apply(t.Context(), "n", object(t, crd, "n", `{}`), metav1.ApplyOptions{FieldManager: "two"}); err != nil {
		t.Error(err)
	}
	wantMembers(t, get(t, notes, "n"), `{}`)
}

func applyLists(t *testing.T, env *environment) {
	crd := define(t, "lists.apply.example.com", "Note", `
type: object
properties:
  m: {type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [k], items: {type: object, required: [k], properties: {k: {type: string}, v: {type: integer}}}}
  s: {type: array, x-kubernetes-list-type: set, items: {type: string}}
  a: {type: array, items: {type: string}}
  o: {type: object, x-kubernetes-map-type: atomic, additionalProperties: {type: string}}
  g: {type: object, additionalProperties: {type: string}}
`)
	notes := env.install(t, crd)
	apply := func(manager, text string) error {
		_, err := notes.Apply(t.Context(), "n", object(t, crd, "n", text), metav1.ApplyOptions{FieldManager: manager})
		return err
	}
	for manager, text := range map[string]string{"one": `{m: [{k: a, v: 1}], s: [x], g: {a: b}}`, "two": `{m: [{k: b, v: 2}], s: [y], g: {c: d}}`} {
		if err := apply(manager, text); err != nil {
			t.Errorf("apply as %s: %v", manager, err)
		}
	}
	got := get(t, notes, "n")
	if len(got.Object["m"].([]any)) != 2 || len(got.Object["s"].([]any)) != 2 || len(got.Object["g"].(map[string]any)) != 2 {
		t.Errorf("applied object %v, want 2 elements in each of m, s and g", members(got))
	}
	if err := apply("one", `{m: [{k: a, v: 1}, {k: b, v: 3}], s: [x], g: {a: b}}`); !apierrors.IsConflict(err) {
		t.Errorf("an entry of another: %v", err)
	}
	if err := apply("one", `{a: [x], o: {x: y}}`); err != nil {
		t.Fatal(err)
	}
	wantMembers(t, get(t, notes, "n"), `{m: [{k: b, v: 2}], s: [y], g: {c: d}, a: [x], o: {x: y}}`)
	if err := apply("two", `{m: [{k: b, v: 2}], s: [y], g: {c: d}, a: [z]}`); !apierrors.IsConflict(err) {
		t.Errorf("an atomic list of another: %v", err)
	}
	if err := apply("two", `{m: [{k: b, v: 2}], s: [y], g: {c: d}, o: {z: z}}`); !apierrors.IsConflict(err) {
		t.Errorf("an atomic map of another: %v", err)
	}
}

func applyUnknown(t *testing.T, env *environment) {
	crd := define(t, "unknown.apply.example.com", "Note", `{type: object, properties: {spec: {type: object, properties: {a: {type: integer}}}}}`)
	env.install(t, crd)
	for _, text := range []string{`{spec: {b: 1}}`, `{spec: {a: x}}`, `{spec: 5}`} {
		a := env.send(t, http.MethodPatch, pathOf(crd, "v1")+"/n?fieldManager=m", encode(t, object(t, crd, "n", text)), "Content-Type", "application/apply-patch+yaml")
		if a.code < 400 || a.code > 499 || a.status().Message == "" {
			t.Errorf("apply %s: %d %s, want a 4xx status with a message", text, a.code, a.body)
		}
	}
}

// emptying is a schema with maps and lists of all types.
const emptying = `
type: object
properties:
  spec:
    type: object
    properties:
      automated: {type: object, properties: {selfHeal: {type: boolean}, prune: {type: boolean}, deep: {type: object, properties: {x: {type: integer}}}}}
      g: {type: object, additionalProperties: {type: object, additionalProperties: {type: string}}}
      s: {type: array, x-kubernetes-list-type: set, items: {type: string}}
      a: {type: array, items: {type: string}}
      m: {type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [k], items: {type: object, required: [k], properties: {k: {type: string}, o: {type: object, properties: {v: {type: integer}}}}}}
      n: {type: object, nullable: true, properties: {v: {type: integer}}}
`

// applyEmptied checks, for both implementations of apply, that applying an empty map or list replaces a
// non-empty one. Field managers with non-ASCII names select the second implementation.
func applyEmptied(t *testing.T, env *environment) {
	crd := define(t, "emptied.apply.example.com", "Note", emptying)
	notes := env.install(t, crd)
	for i, test := range []struct{ first, other, then, want string }{
		{`{automated: {selfHeal: true}}`, ``, `{automated: {}}`, `{automated: {}}`},
		{`{automated: {selfHeal: true, deep: {x: 1}}}`, ``, `{automated: {deep: {}}}`, `{automated: {deep: {}}}`},
		{`{automated: {deep: {x: 1}}}`, ``, `{automated: {}}`, `{automated: {}}`},
		{`{automated: {selfHeal: true}}`, `{automated: {prune: true}}`, `{automated: {}}`, `{automated: {prune: true}}`},
		{`{automated: {selfHeal: true}}`, `{automated: {}}`, `{}`, `{automated: {}}`}, // the other manager still owns the field
		{`{automated: {selfHeal: true}}`, ``, `{}`, `{}`},
		{`{g: {x: {y: z}}}`, ``, `{g: {x: {}}}`, `{g: {x: {}}}`},
		{`{g: {x: {y: z}}}`, ``, `{g: {}}`, `{g: {}}`},
		{`{s: [x, y]}`, ``, `{s: []}`, `{s: []}`},
		{`{s: [x]}`, `{s: [y]}`, `{s: []}`, `{s: [y]}`},
		{`{a: [x]}`, ``, `{a: []}`, `{a: []}`},
		{`{m: [{k: a, o: {v: 1}}]}`, ``, `{m: []}`, `{m: []}`},
		{`{m: [{k: a, o: {v: 1}}, {k: b}]}`, ``, `{m: [{k: a, o: {}}]}`, `{m: [{k: a, o: {}}]}`},
		{`{n: {v: 1}}`, ``, `{n: {}}`, `{n: {}}`},
		{`{n: {v: 1}}`, ``, `{n: null}`, `{n: null}`},
	} {
		for _, manager := range []string{"one", "\u00fcber"} {
			name := fmt.Sprintf("n%d%d", i, len(manager))
			apply := func(manager, spec string) {
				t.Helper()
				if a := env.applied(t, crd, name, manager, spec); a.code > 201 {
					t.Errorf("apply %s as %s in %+v: %d %s", spec, manager, test, a.code, a.body)
				}
			}
			apply(manager, test.first)
			if test.other != "" {
				apply("other", test.other)
			}
			apply(manager, test.then)
			apply(manager, test.then) // a repeated apply changes nothing
			wantMembers(t, get(t, notes, name), `{spec: `+test.want+`}`)
		}
	}
}

// applyRemovedVersion checks that managedFields entries that name a removed version make apply fail until they
// are cleared, but affect no other requests. Entries that name removed fields do not affect apply.
func applyRemovedVersion(t *testing.T, env *environment) {
	crd := define(t, "removed.apply.example.com", "Note", emptying, withVersion(t, "v0", emptying))
	notes := env.install(t, crd)
	old := object(t, crd, "n", `{apiVersion: removed.apply.example.com/v0, spec: {s: [x]}}`)
	if _, err := env.resource(crd, "v0").Apply(t.Context(), "n", old, metav1.ApplyOptions{FieldManager: "old"}); err != nil {
		t.Fatal(err)
	}
	env.mustChange(t, crd.Name, func(crd *apiextensionsv1.CustomResourceDefinition) {
		crd.Spec.Versions = crd.Spec.Versions[:1]
		delete(crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"].Properties, "g")
	})
	for _, manager := range []string{"one", "old"} {
		const want = "request to convert CR to an invalid group/version: removed.apply.example.com/v0"
		if a := env.applied(t, crd, "n", manager, `{a: [x]}`); a.code < 400 || !strings.Contains(a.status().Message, want) {
			t.Errorf("apply as %s: %d %s, want error %q", manager, a.code, a.body, want)
		}
	}
	patch(t, notes, "n", `{"spec":{"a":["y"]}}`)
	patch(t, notes, "n", `{"metadata":{"managedFields":[{"manager":"old","operation":"Apply","apiVersion":"removed.apply.example.com/v1","fieldsType":"FieldsV1","fieldsV1":{"f:spec":{"f:s":{"v:\"x\"":{}},"f:g":{"f:gone":{}}}}}]}}`)
	if a := env.applied(t, crd, "n", "one", `{a: [x]}`); a.code != http.StatusOK {
		t.Errorf("apply as manager one after managed fields were replaced: %d %s", a.code, a.body)
	}
	if a := env.applied(t, crd, "n", "old", `{}`); a.code != http.StatusOK {
		t.Errorf("apply as manager old after managed fields were replaced: %d %s", a.code, a.body)
	}
	wantMembers(t, get(t, notes, "n"), `{spec: {a: [x]}}`)
}

// applied applies a spec that may contain null values. client-go would remove these values.
func (env *environment) applied(t *testing.T, crd *apiextensionsv1.CustomResourceDefinition, name, manager, spec string) response {
	t.Helper()
	path := pathOf(crd, "v1") + "/" + name + "?force=true&fieldManager=" + url.QueryEscape(manager)
	return env.send(t, http.MethodPatch, path, encode(t, object(t, crd, name, `{spec: `+spec+`}`)), "Content-Type", "application/apply-patch+yaml")
}

func applyNull(t *testing.T, env *environment) {
	crd := define(t, "null.apply.example.com", "Note", emptying)
	env.install(t, crd)
	for name, manager := range map[string]string{"n": "one", "o": "\u00fcber"} {
		for _, spec := range []string{`{automated: null}`, `{automated: {deep: null}}`, `{m: [{k: a, o: null}]}`, `{s: null}`} {
			for _, first := range []string{`{}`, `{automated: {deep: {x: 1}}, m: [{k: a, o: {v: 1}}], s: [x]}`} {
				if a := env.applied(t, crd, name, manager, first); a.code > 201 {
					t.Errorf("apply %s: %d %s", first, a.code, a.body)
				}
				if a := env.applied(t, crd, name, manager, spec); a.code != http.StatusUnprocessableEntity || !strings.Contains(a.status().Message, `Invalid value: "null"`) {
					t.Errorf("%s over %s: %d %s", spec, first, a.code, a.body)
				}
			}
		}
	}
}

func applyDefinition(t *testing.T, env *environment) {
	crd := define(t, "def.apply.example.com", "Note", anything)
	t.Cleanup(func() { env.send(t, http.MethodDelete, definitionsPath+"/"+crd.Name, nil) })
	path := definitionsPath + "/" + crd.Name + "?fieldManager=m"
	if a := env.send(t, http.MethodPatch, path, encode(t, crd), "Content-Type", "application/apply-patch+yaml"); a.code != http.StatusCreated {
		t.Fatalf("create the definition with apply: %d %s", a.code, a.body)
	}
	withVersion(t, "v2", anything)(crd)
	if a := env.send(t, http.MethodPatch, path, encode(t, crd), "Content-Type", "application/apply-patch+yaml"); a.code != http.StatusOK {
		t.Fatalf("add a version with apply: %d %s", a.code, a.body)
	}
	env.await(t, crd.Name, "Established", "True")
	create(t, env.resource(crd, "v2"), object(t, crd, "n", `{apiVersion: def.apply.example.com/v2}`))
}
