package custom

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

const rulesSchema = `{"type": "object", "properties": {
"spec": {"type": "object", "properties": {
  "a": {"type": "string", "maxLength": 3, "pattern": "^[a-z]*$", "x-kubernetes-validations": [{"rule": "self != 'bad'", "message": "not that"}]},
  "fixed": {"type": "string", "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "fixed is immutable"}]}}},
"status": {"type": "object", "properties": {"ready": {"type": "integer", "x-kubernetes-validations": [{"rule": "self >= oldSelf", "message": "goes back"}]}}}}}`

const notChecked = "<nil>: Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing errors to complete validation"

// TestRulesOfObjects checks that rules are evaluated for objects and /status after all other validation, and
// that they are skipped if an earlier error prevents their evaluation.
func TestRulesOfObjects(t *testing.T) {
	t.Parallel()
	var props apiextensionsv1.JSONSchemaProps
	if err := json.Unmarshal([]byte(rulesSchema), &props); err != nil {
		t.Fatal(err)
	}
	crd := &apiextensionsv1.CustomResourceDefinition{}
	crd.Spec.Versions = []apiextensionsv1.CustomResourceDefinitionVersion{{Name: "v1", Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &props}}}
	made, err := compile(crd, "v1", nil)
	if err != nil {
		t.Fatal(err)
	}
	h, o := &handler{}, &openHandler{}
	h.compiled.Store(made)
	h.version.name = "v1"
	object := func(text string) *unstructured.Unstructured {
		u := &unstructured.Unstructured{}
		if err := utiljson.Unmarshal([]byte(text), &u.Object); err != nil {
			t.Fatal(err)
		}
		return u
	}
	for _, test := range []struct {
		name, old, object string
		status            bool
		want              []string
	}{
		{"created", "", `{"spec": {"a": "ok", "fixed": "x"}, "status": {"ready": 1}}`, false, nil},
		{"created, violates a rule", "", `{"spec": {"a": "bad"}}`, false, []string{`spec.a: Invalid value: "bad": not that`}},
		{"errors that prevent the evaluation", "", `{"spec": {"a": "toolong", "fixed": 3}}`, false, []string{`spec.a: Too long: may not be more than 3 bytes`,
			`spec.fixed: Invalid value: "integer": spec.fixed in body must be of type string: "integer"`, notChecked}},
		{"an error that does not prevent the evaluation", "", `{"spec": {"a": "B"}}`, false, []string{`spec.a: Invalid value: "B": spec.a in body should match '^[a-z]*$'`}},
		{"updated", `{"spec": {"fixed": "x"}}`, `{"spec": {"fixed": "y"}}`, false, []string{`spec.fixed: Invalid value: "y": fixed is immutable`}},
		{"unchanged violation", `{"spec": {"a": "bad", "fixed": "x"}}`, `{"spec": {"a": "bad", "fixed": "x"}, "other": 1}`, false, nil},
		{"status", `{"spec": {"a": "bad"}, "status": {"ready": 2}}`, `{"spec": {"a": "bad"}, "status": {"ready": 1}}`, true, []string{`status.ready: Invalid value: 1: goes back`}},
		{"status of a wrong type", `{"status": {"ready": 2}}`, `{"status": {"ready": "x"}}`, true, []string{
			`status.ready: Invalid value: "string": ready in body must be of type integer: "string"`, notChecked}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			strategy := h.strategy(o)
			if test.status {
				strategy = h.statusStrategy(o)
			}
			var errs field.ErrorList
			if test.old == "" {
				errs = strategy.Validate(t.Context(), object(test.object))
			} else {
				errs = strategy.ValidateUpdate(t.Context(), object(test.object), object(test.old))
			}
			var got []string
			for _, err := range errs {
				got = append(got, err.Error())
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
