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
	"k8s.io/apimachinery/pkg/watch"
)

// selectingFields tests field selectors on the selectable fields of a definition.
var selectingFields = []behavior{
	{"selectors of lists, watches and deletions", fieldsSelect},
	{"undeclared fields are rejected", fieldsOthers},
	{"changes of the definition", fieldsChange},
	{"validation of selectable fields", fieldsNamed},
}

const lamp = `{type: object, properties: {spec: {type: object, properties: {color: {type: string}, size: {type: integer}, on: {type: boolean}, list: {type: array, items: {type: string}}}}}}`

func selectable(paths ...string) func(*apiextensionsv1.CustomResourceDefinition) {
	return func(crd *apiextensionsv1.CustomResourceDefinition) {
		crd.Spec.Versions[0].SelectableFields = nil
		for _, path := range paths {
			crd.Spec.Versions[0].SelectableFields = append(crd.Spec.Versions[0].SelectableFields, apiextensionsv1.SelectableField{JSONPath: path})
		}
	}
}

func fieldsSelect(t *testing.T, env *environment) {
	crd := define(t, "select.field.example.com", "Lamp", lamp, selectable(".spec.color", ".spec.size", ".spec.on"))
	lamps := env.install(t, crd)
	events, err := lamps.Watch(t.Context(), metav1.ListOptions{FieldSelector: "spec.color=red"})
	if err != nil {
		t.Fatal(err)
	}
	defer events.Stop()
	for name, spec := range map[string]string{"a": `{color: red, size: 1, on: true}`, "b": `{color: blue, size: 2}`, "c": `{size: 2, on: false}`} {
		create(t, lamps, object(t, crd, name, `{spec: `+spec+`}`))
	}
	for selector, want := range map[string][]string{
		"spec.color=red": {"a"}, "spec.color!=red": {"b", "c"}, "spec.color=": {"c"}, "spec.size=2": {"b", "c"}, "spec.size==2,spec.color=blue": {"b"},
		"spec.on=true": {"a"}, "spec.on=false": {"c"}, "metadata.name=b": {"b"}, "metadata.namespace=default,spec.size=1": {"a"}, "spec.color=green": nil,
	} {
		list, err := lamps.List(t.Context(), metav1.ListOptions{FieldSelector: selector})
		if err != nil {
			t.Errorf("list with field selector %s: %v", selector, err)
			continue
		}
		var got []string
		for _, item := range list.Items {
			got = append(got, item.GetName())
		}
		slices.Sort(got)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", selector, diff)
		}
	}
	patch(t, lamps, "a", `{"spec":{"color":"blue"}}`)
	patch(t, lamps, "b", `{"spec":{"color":"red"}}`)
	var got []string
	for range 3 {
		event := <-events.ResultChan()
		name, _ := event.Object.(metav1.Object)
		got = append(got, string(event.Type)+" "+name.GetName())
	}
	if diff := cmp.Diff([]string{string(watch.Added) + " a", string(watch.Deleted) + " a", string(watch.Added) + " b"}, got); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	if err := lamps.DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{FieldSelector: "spec.size=2"}); err != nil {
		t.Fatal(err)
	}
	if list, err := lamps.List(t.Context(), metav1.ListOptions{}); err != nil || len(list.Items) != 1 {
		t.Errorf("list after the deletion by field selector: %v, %v; want one object", list, err)
	}
}

func fieldsOthers(t *testing.T, env *environment) {
	crd := define(t, "other.field.example.com", "Lamp", lamp, selectable(".spec.color"))
	lamps := env.install(t, crd)
	for _, selector := range []string{"spec.size=1", "status.x=1", "spec=1", "a b"} {
		if _, err := lamps.List(t.Context(), metav1.ListOptions{FieldSelector: selector}); !apierrors.IsBadRequest(err) {
			t.Errorf("list with field selector %s: %v, want BadRequest", selector, err)
		}
	}
}

func fieldsChange(t *testing.T, env *environment) {
	crd := define(t, "change.field.example.com", "Lamp", lamp)
	lamps := env.install(t, crd)
	create(t, lamps, object(t, crd, "a", `{spec: {color: red}}`))
	bySelector := metav1.ListOptions{FieldSelector: "spec.color=red"}
	if _, err := lamps.List(t.Context(), bySelector); !apierrors.IsBadRequest(err) {
		t.Errorf("before: %v", err)
	}
	env.mustChange(t, crd.Name, selectable(".spec.color"))
	if list, err := lamps.List(t.Context(), bySelector); err != nil || len(list.Items) != 1 {
		t.Errorf("list by the added selectable field: %v, %v; want one object", list, err)
	}
	if a := env.send(t, http.MethodGet, "/openapi/v3/apis/change.field.example.com/v1", nil); !strings.Contains(string(a.body), `"x-kubernetes-selectable-fields":[{"fieldPath":"spec.color"}]`) {
		t.Error("OpenAPI does not tell")
	}
	env.mustChange(t, crd.Name, selectable())
	if _, err := lamps.List(t.Context(), bySelector); !apierrors.IsBadRequest(err) {
		t.Errorf("afterwards: %v", err)
	}
}

func fieldsNamed(t *testing.T, env *environment) {
	for _, path := range []string{".spec.list", ".spec.none", ".spec", ".metadata.name", "spec.color", ".spec.list[0]", "", ".spec.color}{.a.b"} {
		crd := define(t, "named.field.example.com", "Lamp", lamp, selectable(path))
		a := env.send(t, http.MethodPost, definitionsPath+"?dryRun=All", encode(t, crd))
		if s := a.status(); a.code != http.StatusUnprocessableEntity || len(s.Details.Causes) == 0 || s.Details.Causes[0].Field != "spec.selectableFields[0].jsonPath" {
			t.Errorf("create a definition with selectable field %q: %d %s, want 422 for the field", path, a.code, a.body)
		}
	}
	const many = `{type: object, properties: {a: {type: string}, b: {type: string}, c: {type: string}, d: {type: string}, e: {type: string}, f: {type: string}, g: {type: string}, h: {type: string}, i: {type: string}}}`
	crd := define(t, "named.field.example.com", "Lamp", many, selectable(".a", ".b", ".c", ".d", ".e", ".f", ".g", ".h", ".i"))
	if a := env.send(t, http.MethodPost, definitionsPath+"?dryRun=All", encode(t, crd)); !strings.Contains(string(a.body), "Too many: 9: must have at most 8 items") {
		t.Errorf("nine fields: %d %s", a.code, a.body)
	}
	twice := define(t, "named.field.example.com", "Lamp", lamp, selectable(".spec.color", ".spec.color"))
	if a := env.send(t, http.MethodPost, definitionsPath+"?dryRun=All", encode(t, twice)); !strings.Contains(string(a.body), "Duplicate value") {
		t.Errorf("one field twice: %d %s", a.code, a.body)
	}
}
