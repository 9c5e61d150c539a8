package crds

import (
	"net/http"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// applying is server-side apply.
var applying = []behaviour{
	{"created, shared, taken", applyShared},
	{"lists and maps by their type", applyLists},
	{"unknown members are refused", applyUnknown},
	{"definitions", applyDefinition},
}

func applyShared(t *testing.T, w *world) {
	crd := define(t, "shared.apply.example.com", "Note", `{type: object, properties: {spec: {type: object, properties: {a: {type: integer}}}}}`)
	notes := w.install(t, crd)
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
		t.Errorf("%v", err)
	}
	forced, err := notes.Apply(t.Context(), "n", object(t, crd, "n", `{spec: {a: 2}}`), metav1.ApplyOptions{FieldManager: "two", Force: true})
	if err != nil || len(forced.GetManagedFields()) != 1 {
		t.Errorf("%v, %v", forced, err)
	}
	if _, err := notes.Apply(t.Context(), "n", object(t, crd, "n", `{}`), metav1.ApplyOptions{FieldManager: "two"}); err != nil {
		t.Error(err)
	}
	wantMembers(t, get(t, notes, "n"), `{}`)
}

func applyLists(t *testing.T, w *world) {
	crd := define(t, "lists.apply.example.com", "Note", `
type: object
properties:
  m: {type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [k], items: {type: object, required: [k], properties: {k: {type: string}, v: {type: integer}}}}
  s: {type: array, x-kubernetes-list-type: set, items: {type: string}}
  a: {type: array, items: {type: string}}
  o: {type: object, x-kubernetes-map-type: atomic, additionalProperties: {type: string}}
  g: {type: object, additionalProperties: {type: string}}
`)
	notes := w.install(t, crd)
	apply := func(manager, text string) error {
		_, err := notes.Apply(t.Context(), "n", object(t, crd, "n", text), metav1.ApplyOptions{FieldManager: manager})
		return err
	}
	for manager, text := range map[string]string{"one": `{m: [{k: a, v: 1}], s: [x], g: {a: b}}`, "two": `{m: [{k: b, v: 2}], s: [y], g: {c: d}}`} {
		if err := apply(manager, text); err != nil {
			t.Errorf("%s: %v", manager, err)
		}
	}
	got := get(t, notes, "n")
	if len(got.Object["m"].([]any)) != 2 || len(got.Object["s"].([]any)) != 2 || len(got.Object["g"].(map[string]any)) != 2 {
		t.Errorf("%v", members(got))
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

func applyUnknown(t *testing.T, w *world) {
	crd := define(t, "unknown.apply.example.com", "Note", `{type: object, properties: {spec: {type: object, properties: {a: {type: integer}}}}}`)
	w.install(t, crd)
	for _, text := range []string{`{spec: {b: 1}}`, `{spec: {a: x}}`, `{spec: 5}`} {
		a := w.send(t, http.MethodPatch, pathOf(crd, "v1")+"/n?fieldManager=m", encode(t, object(t, crd, "n", text)), "Content-Type", "application/apply-patch+yaml")
		if a.code < 400 || a.code > 499 || a.status().Message == "" {
			t.Errorf("%s: %d %s", text, a.code, a.body)
		}
	}
}

func applyDefinition(t *testing.T, w *world) {
	crd := define(t, "def.apply.example.com", "Note", anything)
	t.Cleanup(func() { w.send(t, http.MethodDelete, definitionsPath+"/"+crd.Name, nil) })
	path := definitionsPath + "/" + crd.Name + "?fieldManager=m"
	if a := w.send(t, http.MethodPatch, path, encode(t, crd), "Content-Type", "application/apply-patch+yaml"); a.code != http.StatusCreated {
		t.Fatalf("%d %s", a.code, a.body)
	}
	withVersion(t, "v2", anything)(crd)
	if a := w.send(t, http.MethodPatch, path, encode(t, crd), "Content-Type", "application/apply-patch+yaml"); a.code != http.StatusOK {
		t.Fatalf("%d %s", a.code, a.body)
	}
	w.await(t, crd.Name, "Established", "True")
	create(t, w.resource(crd, "v2"), object(t, crd, "n", `{apiVersion: def.apply.example.com/v2}`))
}
