package crds

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// validating tests validation by schemas and rules.
var validating = []behavior{
	{"each keyword", validateKeywords},
	{"create, update, patch and status", validateWrites},
	{"dry run", validateDryRun},
	{"sets and maps", validateLists},
	{"rules", validateRules},
	{"forbidden schema constructs", validateForbidden},
	{"structural schemas", validateStructure},
	{"metadata of stored objects", validateMetadata},
}

func validateKeywords(t *testing.T, env *environment) {
	crd := define(t, "keyword.valid.example.com", "Note", `
type: object
required: [spec]
properties:
  spec:
    type: object
    maxProperties: 3
    properties:
      s: {type: string, minLength: 2, maxLength: 4, pattern: '^[a-z]+$'}
      f: {type: string, format: date}
      u: {type: string, format: uuid}
      i: {type: integer, minimum: 1, maximum: 10, multipleOf: 2}
      n: {type: number, exclusiveMaximum: true, maximum: 1}
      e: {type: string, enum: [a, b]}
      l: {type: array, minItems: 1, maxItems: 2, items: {type: integer}}
      o: {type: object, minProperties: 1, additionalProperties: {type: string}}
      any: {type: object, anyOf: [{required: [x]}, {required: [y]}], properties: {x: {type: string}, y: {type: string}}}
      all: {type: object, allOf: [{required: [x]}, {not: {required: [y]}}], properties: {x: {type: string}, y: {type: string}}}
`)
	notes := env.install(t, crd)
	for text, want := range map[string][]string{
		`{}`:                 {"spec: Required value"},
		`{spec: 5}`:          {`spec: Invalid value: "integer": spec in body must be of type object: "integer"`},
		`{spec: {s: a}}`:     {`spec.s: Invalid value: "a": spec.s in body should be at least 2 chars long`},
		`{spec: {s: abcde}}`: {"spec.s: Too long: may not be more than 4 bytes"},
		`{spec: {s: AB}}`:    {`spec.s: Invalid value: "AB": spec.s in body should match '^[a-z]+$'`},
		`{spec: {f: today}}`: {`spec.f: Invalid value: "today": spec.f in body must be of type date: "today"`},
		`{spec: {u: x}}`:     {`spec.u: Invalid value: "x": spec.u in body must be of type uuid: "x"`},
		`{spec: {i: 0}}`:     {"spec.i: Invalid value: 0: spec.i in body should be greater than or equal to 1"},
		`{spec: {i: 12}}`:    {"spec.i: Invalid value: 12: spec.i in body should be less than or equal to 10"},
		`{spec: {i: 3}}`:     {"spec.i: Invalid value: 3: spec.i in body should be a multiple of 2"},
		`{spec: {i: 2.5}}`: {
			`<nil>: Invalid value: "": Checked value must be of type integer (default format) in spec.i`,
			`spec.i: Invalid value: "number": spec.i in body must be of type integer: "number"`, "spec.i: Invalid value: 2.5: spec.i in body should be a multiple of 2",
		},
		`{spec: {n: 1}}`:         {"spec.n: Invalid value: 1: spec.n in body should be less than 1"},
		`{spec: {e: c}}`:         {`spec.e: Unsupported value: "c": supported values: "a", "b"`},
		`{spec: {l: []}}`:        {"spec.l: Invalid value: 0: spec.l in body should have at least 1 items"},
		`{spec: {l: [1, 2, 3]}}`: {"spec.l: Too many: 3: must have at most 2 items"},
		`{spec: {l: [x]}}`:       {`spec.l[0]: Invalid value: "string": spec.l[0] in body must be of type integer: "string"`},
		`{spec: {o: {}}}`:        {"spec.o: Invalid value: 0: spec.o in body should have at least 1 properties"},
		`{spec: {o: {k: 1}}}`:    {`spec.o.k: Invalid value: "integer": spec.o.k in body must be of type string: "integer"`},
		`{spec: {s: ab, f: "2026-01-01", i: 2, n: 0}}`: {"spec: Too many: 4: must have at most 3 items"},
		`{spec: {any: {}}}`: {
			`<nil>: Invalid value: "": "spec.any" must validate at least one schema (anyOf)`, "spec.any.x: Required value",
		},
		`{spec: {all: {x: a, y: b}}}`: {
			`<nil>: Invalid value: "": "spec.all" must not validate the schema (not)`,
			`<nil>: Invalid value: "": "spec.all" must validate all the schemas (allOf)`,
		},
	} {
		_, err := notes.Create(t.Context(), object(t, crd, "n", text), metav1.CreateOptions{})
		if diff := cmp.Diff(want, causes(err)); !apierrors.IsInvalid(err) || diff != "" {
			t.Errorf("%s (-want +got):\n%s", text, diff)
		}
	}
	create(t, notes, object(t, crd, "n", `{spec: {s: abcd, l: [1, 2], all: {x: a}}}`))
}

const limited = `{type: object, properties: {spec: {type: object, properties: {n: {type: integer, maximum: 5}}}, status: {type: object, properties: {n: {type: integer, maximum: 5}}}}}`

func validateWrites(t *testing.T, env *environment) {
	crd := define(t, "write.valid.example.com", "Note", limited, withStatus)
	notes := env.install(t, crd)
	made := create(t, notes, object(t, crd, "n", `{spec: {n: 1}, status: {n: 9}}`)) // the status is dropped on creation, so it is not validated
	made.Object["spec"] = map[string]any{"n": int64(9)}
	if _, err := notes.Update(t.Context(), made, metav1.UpdateOptions{}); !apierrors.IsInvalid(err) {
		t.Errorf("updated: %v", err)
	}
	for _, subresource := range [][]string{nil, {"status"}} {
		body := `{"spec":{"n":9},"status":{"n":9}}`
		if _, err := notes.Patch(t.Context(), "n", mergePatch, []byte(body), metav1.PatchOptions{}, subresource...); !apierrors.IsInvalid(err) || len(causes(err)) != 1 {
			t.Errorf("patched %v: %v", subresource, err)
		}
	}
	a := env.send(t, http.MethodPatch, pathOf(crd, "v1")+"/n?fieldManager=m&force=true", encode(t, object(t, crd, "n", `{spec: {n: 9}}`)), "Content-Type", "application/apply-patch+yaml")
	if a.code != http.StatusUnprocessableEntity {
		t.Errorf("applied: %d %s", a.code, a.body)
	}
	patch(t, notes, "n", `{"status":{"n":5}}`, "status")
}

func validateDryRun(t *testing.T, env *environment) {
	crd := define(t, "dry.valid.example.com", "Note", limited)
	notes := env.install(t, crd)
	if _, err := notes.Create(t.Context(), object(t, crd, "n", `{spec: {n: 1}}`), metav1.CreateOptions{DryRun: []string{"All"}}); err != nil {
		t.Error(err)
	}
	if _, err := notes.Get(t.Context(), "n", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("a dry run has written: %v", err)
	}
	if _, err := notes.Create(t.Context(), object(t, crd, "n", `{spec: {n: 9}}`), metav1.CreateOptions{DryRun: []string{"All"}}); !apierrors.IsInvalid(err) {
		t.Errorf("create an invalid object with dry run: %v, want Invalid", err)
	}
}

func validateLists(t *testing.T, env *environment) {
	crd := define(t, "list.valid.example.com", "Note", `
type: object
properties:
  set: {type: array, x-kubernetes-list-type: set, items: {type: string}}
  atoms: {type: array, x-kubernetes-list-type: set, items: {type: object, x-kubernetes-map-type: atomic, properties: {a: {type: integer}, b: {type: integer}}}}
  map: {type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [a, b], items: {type: object, required: [a], properties: {a: {type: string}, b: {type: integer, default: 1}, c: {type: string}}}}
  atomic: {type: array, x-kubernetes-list-type: atomic, items: {type: string}}
`)
	notes := env.install(t, crd)
	create(t, notes, object(t, crd, "good", `{set: [a, b], atoms: [{a: 1}, {a: 1, b: 1}], map: [{a: x}, {a: x, b: 2}], atomic: [a, a]}`))
	for text, want := range map[string][]string{
		`{set: [a, b, a]}`:                        {`set[2]: Duplicate value: "a"`},
		`{atoms: [{a: 1}, {a: 1}]}`:               {`atoms[1]: Duplicate value: {"a":1}`},
		`{map: [{a: x, c: 1}, {a: x, b: 1}]}`:     {`map[0].c: Invalid value: "integer": map[0].c in body must be of type string: "integer"`, `map[1]: Duplicate value: {"a":"x","b":1}`},
		`{map: [{b: 1}]}`:                         {`map[0].a: Required value`},
		`{set: [x, x, x], map: [{a: y}, {a: y}]}`: {`map[1]: Duplicate value: {"a":"y","b":1}`, `set[1]: Duplicate value: "x"`},
	} {
		_, err := notes.Create(t.Context(), object(t, crd, "bad", text), metav1.CreateOptions{})
		if diff := cmp.Diff(want, causes(err)); !apierrors.IsInvalid(err) || diff != "" {
			t.Errorf("%s (-want +got):\n%s", text, diff)
		}
	}
}

func validateRules(t *testing.T, env *environment) {
	crd := define(t, "rule.valid.example.com", "Note", `
type: object
x-kubernetes-validations: [{rule: "self.metadata.name != 'forbidden'", message: not that name, reason: FieldValueForbidden}]
properties:
  spec:
    type: object
    x-kubernetes-validations:
      - {rule: self.low <= self.high, message: low is above high}
      - {rule: "has(self.kind) == has(oldSelf.kind)", message: kind stays}
    properties:
      low: {type: integer, default: 0}
      high: {type: integer, default: 10}
      kind: {type: string, maxLength: 10}
      fixed: {type: string, x-kubernetes-validations: [{rule: self == oldSelf, message: fixed is fixed}]}
      grown: {type: integer, x-kubernetes-validations: [{rule: "!oldSelf.hasValue() || self >= oldSelf.value()", optionalOldSelf: true, messageExpression: "self < 0 ? 'below zero' : 'may not shrink'"}]}
      list: {type: array, maxItems: 5, items: {type: string, maxLength: 5, x-kubernetes-validations: [{rule: "self.startsWith('a')"}]}}
      when: {type: string, format: date-time, x-kubernetes-validations: [{rule: "self.getFullYear() > 2000", message: too old}]}
      amount: {x-kubernetes-int-or-string: true, x-kubernetes-validations: [{rule: "type(self) == int ? self < 10 : self.endsWith('%')", message: neither small nor a share}]}
`)
	notes := env.install(t, crd)
	for text, want := range map[string][]string{
		`{metadata: {name: forbidden}}`:          {"<nil>: Forbidden: not that name"},
		`{spec: {low: 5, high: 1}}`:              {"spec: Invalid value: low is above high"},
		`{spec: {list: [a, b, ac, d]}}`:          {`spec.list[1]: Invalid value: "b": failed rule: self.startsWith('a')`, `spec.list[3]: Invalid value: "d": failed rule: self.startsWith('a')`},
		`{spec: {when: "1999-01-01T00:00:00Z"}}`: {`spec.when: Invalid value: "1999-01-01T00:00:00Z": too old`},
		`{spec: {amount: 10}}`:                   {`spec.amount: Invalid value: 10: neither small nor a share`},
		`{spec: {amount: "10"}}`:                 {`spec.amount: Invalid value: "10": neither small nor a share`},
	} {
		_, err := notes.Create(t.Context(), object(t, crd, "bad", text), metav1.CreateOptions{})
		if diff := cmp.Diff(want, causes(err)); !apierrors.IsInvalid(err) || diff != "" {
			t.Errorf("%s (-want +got):\n%s", text, diff)
		}
	}
	create(t, notes, object(t, crd, "n", `{spec: {fixed: x, grown: 5, amount: 50%}}`))
	for body, want := range map[string]string{
		`{"spec":{"fixed":"y"}}`: `spec.fixed: Invalid value: "y": fixed is fixed`,
		`{"spec":{"kind":"a"}}`:  "spec: Invalid value: kind stays",
		`{"spec":{"grown":4}}`:   "spec.grown: Invalid value: 4: may not shrink",
	} {
		_, err := notes.Patch(t.Context(), "n", mergePatch, []byte(body), metav1.PatchOptions{})
		if diff := cmp.Diff([]string{want}, causes(err)); !apierrors.IsInvalid(err) || diff != "" {
			t.Errorf("%s (-want +got):\n%s", body, diff)
		}
	}
	patch(t, notes, "n", `{"spec":{"fixed":null,"grown":6}}`)
}

func validateForbidden(t *testing.T, env *environment) {
	for text, want := range map[string]string{
		`{type: object, $ref: "#/x"}`:                                                                                   "$ref",
		`{type: object, definitions: {a: {type: string}}}`:                                                              "definitions",
		`{type: object, dependencies: {a: [b]}}`:                                                                        "dependencies",
		`{type: object, patternProperties: {a: {type: string}}}`:                                                        "patternProperties",
		`{type: object, id: x}`:                                                                                         "id",
		`{type: object, properties: {a: {type: array, uniqueItems: true, items: {type: string}}}}`:                      "uniqueItems",
		`{type: object, properties: {a: {type: array, items: {type: string}, additionalItems: true}}}`:                  "additionalItems",
		`{type: object, properties: {a: {type: object, properties: {b: {type: string}}, additionalProperties: false}}}`: "additionalProperties",
		`{type: object, properties: {a: {type: string, nullable: true}}, anyOf: [{properties: {b: {type: string}}}]}`:   "anyOf",
	} {
		a := env.send(t, http.MethodPost, definitionsPath+"?dryRun=All", encode(t, define(t, "never.valid.example.com", "Note", text)))
		if got := causesOf(a.status()); a.code != http.StatusUnprocessableEntity || !slices.ContainsFunc(got, func(s string) bool { return strings.Contains(s, want) }) {
			t.Errorf("create a definition with schema %s: %d %s, want 422 with cause %q", text, a.code, a.body, want)
		}
	}
}

func validateStructure(t *testing.T, env *environment) {
	for text, want := range map[string]string{
		`{type: string}`:                                                                        "must be object at the root",
		`{properties: {a: {type: string}}}`:                                                     "must not be empty at the root",
		`{type: object, properties: {a: {}}}`:                                                   "must not be empty for specified object fields",
		`{type: object, properties: {a: {type: array, items: {}}}}`:                             "must not be empty for specified array items",
		`{type: object, properties: {a: {type: array}}}`:                                        "must be specified",
		`{type: object, properties: {metadata: {type: object, minProperties: 1}}}`:              "must not specify anything other than name and generateName, but metadata is implicitly specified",
		`{type: object, properties: {a: {type: object, x-kubernetes-embedded-resource: true}}}`: "must not be empty if x-kubernetes-embedded-resource is true",
	} {
		a := env.send(t, http.MethodPost, definitionsPath+"?dryRun=All", encode(t, define(t, "some.valid.example.com", "Note", text)))
		if got := strings.Join(causesOf(a.status()), "\n"); a.code != http.StatusUnprocessableEntity || !strings.Contains(got, want) {
			t.Errorf("create a definition with schema %s: %d %s, want 422 with cause %q", text, a.code, a.body, want)
		}
	}
	none := define(t, "some.valid.example.com", "Note", anything, func(crd *apiextensionsv1.CustomResourceDefinition) { crd.Spec.Versions[0].Schema = nil })
	if a := env.send(t, http.MethodPost, definitionsPath, encode(t, none)); !strings.Contains(string(a.body), "spec.versions[0].schema.openAPIV3Schema") {
		t.Errorf("no schema: %d %s", a.code, a.body)
	}
}

// validateMetadata sends objects in which only the metadata is invalid.
func validateMetadata(t *testing.T, env *environment) {
	crd := define(t, "meta.valid.example.com", "Note", anything)
	notes := env.install(t, crd)
	for text, want := range map[string]string{
		`{metadata: {name: n, labels: {"a b": c}}}`:                                               "metadata.labels",
		`{metadata: {name: n, annotations: {"a b": c}}}`:                                          "metadata.annotations",
		`{metadata: {name: n, finalizers: [x]}}`:                                                  "metadata.finalizers",
		`{metadata: {name: n, ownerReferences: [{apiVersion: v1, kind: K, name: x}]}}`:            "metadata.ownerReferences[0].uid",
		`{metadata: {name: n, ownerReferences: [{apiVersion: "", kind: "", name: "", uid: ""}]}}`: "metadata.ownerReferences",
		`{metadata: {name: "` + strings.Repeat("n", 254) + `"}}`:                                  "metadata.name",
		`{metadata: {name: ..}}`:                                                                  "metadata.name",
	} {
		_, err := notes.Create(t.Context(), object(t, crd, "n", text), metav1.CreateOptions{})
		if !apierrors.IsInvalid(err) || !strings.Contains(strings.Join(causes(err), "\n"), want) {
			if want != "metadata.finalizers" || err != nil { // a finalizer without a slash is a warning
				t.Errorf("create %.100s: %v, want Invalid with cause %q", text, err, want)
			}
		}
	}
}

// ratcheting tests that invalid fields do not prevent an update that leaves them unchanged.
var ratcheting = []behavior{
	{"unchanged values", ratchetValues},
	{"rules", ratchetRules},
	{"lists and maps", ratchetLists},
	{"status", ratchetStatus},
}

// tighten returns an edit that replaces the schema of the first version.
func tighten(t *testing.T, text string) func(*apiextensionsv1.CustomResourceDefinition) {
	return func(crd *apiextensionsv1.CustomResourceDefinition) {
		crd.Spec.Versions[0].Schema = define(t, "a.b", "K", text).Spec.Versions[0].Schema
	}
}

func ratchetValues(t *testing.T, env *environment) {
	crd := define(t, "values.ratchet.example.com", "Note", anything)
	notes := env.install(t, crd)
	create(t, notes, object(t, crd, "n", `{spec: {s: toolong, n: 100, e: c, o: {deep: {x: 1}}, f: 1}}`))
	env.mustChange(t, crd.Name, tighten(t, `
type: object
properties:
  spec:
    type: object
    required: [r]
    properties:
      r: {type: string}
      s: {type: string, maxLength: 3}
      n: {type: integer, maximum: 5}
      e: {type: string, enum: [a, b]}
      o: {type: object, properties: {deep: {type: object, properties: {x: {type: string}}}}}
      f: {type: integer}
`))
	// The whole spec counts as changed, so its required fields are checked.
	_, err := notes.Patch(t.Context(), "n", mergePatch, []byte(`{"spec":{"f":2}}`), metav1.PatchOptions{})
	if diff := cmp.Diff([]string{"spec.r: Required value"}, causes(err)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	patch(t, notes, "n", `{"metadata":{"labels":{"a":"b"}}}`)
	patch(t, notes, "n", `{"spec":{"f":2,"r":"there"}}`)
	for body, want := range map[string]string{
		`{"spec":{"s":"longer"}}`:         "spec.s: Too long: may not be more than 3 bytes",
		`{"spec":{"n":99}}`:               "spec.n: Invalid value: 99: spec.n in body should be less than or equal to 5",
		`{"spec":{"e":"d"}}`:              `spec.e: Unsupported value: "d": supported values: "a", "b"`,
		`{"spec":{"o":{"deep":{"x":2}}}}`: `spec.o.deep.x: Invalid value: "integer": spec.o.deep.x in body must be of type string: "integer"`,
	} {
		_, err := notes.Patch(t.Context(), "n", mergePatch, []byte(body), metav1.PatchOptions{})
		if diff := cmp.Diff([]string{want}, causes(err)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", body, diff)
		}
	}
	patch(t, notes, "n", `{"spec":{"s":"ok","n":5,"e":"a","o":{"deep":{"x":"y"}}}}`)
}

func ratchetRules(t *testing.T, env *environment) {
	crd := define(t, "rules.ratchet.example.com", "Note", anything)
	notes := env.install(t, crd)
	create(t, notes, object(t, crd, "n", `{spec: {a: bad, b: bad, c: 1}}`))
	env.mustChange(t, crd.Name, tighten(t, `
type: object
properties:
  spec:
    type: object
    properties:
      a: {type: string, x-kubernetes-validations: [{rule: self == 'good', message: a is bad}]}
      b: {type: string, x-kubernetes-validations: [{rule: self == oldSelf, message: b stays}]}
      c: {type: integer}
`))
	patch(t, notes, "n", `{"spec":{"c":2}}`)
	_, err := notes.Patch(t.Context(), "n", mergePatch, []byte(`{"spec":{"a":"worse","b":"other"}}`), metav1.PatchOptions{})
	if diff := cmp.Diff([]string{`spec.a: Invalid value: "worse": a is bad`, `spec.b: Invalid value: "other": b stays`}, causes(err)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func ratchetLists(t *testing.T, env *environment) {
	crd := define(t, "lists.ratchet.example.com", "Note", anything)
	notes := env.install(t, crd)
	create(t, notes, object(t, crd, "n", `{l: [bad, bad2], m: [{k: a, v: 9}, {k: b, v: 9}], set: [x, x], o: {x: bad, y: bad}}`))
	env.mustChange(t, crd.Name, tighten(t, `
type: object
properties:
  l: {type: array, items: {type: string, maxLength: 2}}
  m: {type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [k], items: {type: object, required: [k], properties: {k: {type: string}, v: {type: integer, maximum: 5}, w: {type: string}}}}
  set: {type: array, x-kubernetes-list-type: set, items: {type: string}}
  o: {type: object, additionalProperties: {type: string, maxLength: 2}}
  other: {type: integer}
`))
	patch(t, notes, "n", `{"other":1}`)
	patch(t, notes, "n", `{"m":[{"k":"b","v":9,"w":"x"},{"k":"a","v":9}]}`)
	patch(t, notes, "n", `{"o":{"z":"ok"}}`)
	for body, want := range map[string][]string{
		`{"l":["bad","bad2","ok"]}`: {"l[0]: Too long: may not be more than 2 bytes", "l[1]: Too long: may not be more than 2 bytes"},
		`{"m":[{"k":"c","v":9}]}`:   {"m[0].v: Invalid value: 9: m[0].v in body should be less than or equal to 5"},
		`{"o":{"x":"worse"}}`:       {"o.x: Too long: may not be more than 2 bytes"},
	} {
		_, err := notes.Patch(t.Context(), "n", mergePatch, []byte(body), metav1.PatchOptions{})
		if diff := cmp.Diff(want, causes(err)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", body, diff)
		}
	}
}

func ratchetStatus(t *testing.T, env *environment) {
	crd := define(t, "status.ratchet.example.com", "Note", anything, withStatus)
	notes := env.install(t, crd)
	create(t, notes, object(t, crd, "n", `{spec: {s: toolong}}`))
	patch(t, notes, "n", `{"status":{"s":"toolong"}}`, "status")
	env.mustChange(t, crd.Name, tighten(t, `{type: object, properties: {spec: {type: object, properties: {s: {type: string, maxLength: 3}}}, status: {type: object, properties: {s: {type: string, maxLength: 3}, n: {type: integer}}}}}`))
	patch(t, notes, "n", `{"status":{"n":1}}`, "status")
	_, err := notes.Patch(t.Context(), "n", mergePatch, []byte(`{"status":{"s":"longer"}}`), metav1.PatchOptions{}, "status")
	if diff := cmp.Diff([]string{"status.s: Too long: may not be more than 3 bytes"}, causes(err)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
