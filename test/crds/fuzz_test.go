package crds

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"mainstay.dev/mainstay/internal/apis/custom/definition"
	"mainstay.dev/mainstay/internal/apis/custom/rules"
	"mainstay.dev/mainstay/internal/apis/custom/schema"
)

// FuzzDefinition checks arbitrary schemas and documents. A schema that validation accepts must compile. A
// document that was pruned and defaulted must not change when it is pruned and defaulted again. A valid
// document must also be valid as an update of itself.
func FuzzDefinition(f *testing.F) {
	seedDefinitions(f)
	f.Fuzz(func(t *testing.T, schemaText, body []byte) {
		var props schemaProps
		if len(schemaText) > 1<<16 || json.Unmarshal(schemaText, &props) != nil {
			return
		}
		crd := define(t, "fuzz.example.com", "Note", "{type: object}", withStatus)
		crd.Spec.Versions[0].Schema.OpenAPIV3Schema = &props
		definition.Default(crd)
		definition.Prepare(crd)
		if len(definition.Validate(t.Context(), crd)) > 0 {
			return
		}
		definition.Warnings(crd)
		internal, err := definition.InternalSchema(&props)
		if err != nil {
			t.Fatalf("convert an accepted schema: %v", err)
		}
		compiled, err := schema.Compile(internal)
		if err != nil {
			t.Fatalf("compile an accepted schema: %v", err)
		}
		doc := map[string]any{}
		if kjson.UnmarshalCaseSensitivePreserveInts(body, &doc) != nil || doc == nil {
			return
		}
		checkDocument(t, compiled, rules.New(internal, true), doc)
	})
}

func checkDocument(t *testing.T, s *schema.Schema, r *rules.Rules, doc map[string]any) {
	s.Complete(doc)
	complete := runtime.DeepCopyJSON(doc)
	s.Complete(doc)
	if diff := cmp.Diff(complete, doc); diff != "" {
		t.Fatalf("pruning and defaulting a second time changes a document:\n%s", diff)
	}
	if unknown := s.Prune(doc, true); len(unknown) > 0 {
		t.Fatalf("unknown fields after pruning and defaulting: %v", unknown)
	}
	judge := func(old map[string]any) field.ErrorList {
		var errs field.ErrorList
		if old == nil {
			errs = s.Validate(t.Context(), nil, doc)
		} else {
			errs = s.ValidateUpdate(t.Context(), nil, doc, old)
		}
		return append(append(errs, s.ValidateEmbedded(nil, doc)...), s.ValidateLists(nil, doc, old)...)
	}
	errs := judge(nil)
	again := judge(complete)
	if len(errs) == 0 && len(again) > 0 {
		t.Fatalf("a valid document is not valid as an update of itself: %v", again)
	}
	if r == nil || len(errs) > 0 {
		return
	}
	r.Validate(t.Context(), nil, doc, rules.Options{Budget: rules.Budget})
	r.Validate(t.Context(), nil, doc, rules.Options{Budget: rules.Budget, Old: complete, Ratchet: true})
	if diff := cmp.Diff(complete, doc); diff != "" {
		t.Fatalf("validation has changed a document:\n%s", diff)
	}
}

// seedDefinitions adds the samples in testdata and some small, unusual schemas to the fuzzing corpus.
func seedDefinitions(f *testing.F) {
	folders, err := filepath.Glob("testdata/*/definition.yaml")
	if err != nil || len(folders) == 0 {
		f.Fatal("no samples", err)
	}
	for _, file := range folders {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		var crd apiextensionsv1.CustomResourceDefinition
		if err := yaml.UnmarshalStrict(text, &crd); err != nil {
			f.Fatal(err)
		}
		objects, err := os.ReadFile(filepath.Join(filepath.Dir(file), "objects.yaml"))
		if err != nil {
			f.Fatal(err)
		}
		for _, object := range readObjects(f, objects) {
			f.Add(encode(f, crd.Spec.Versions[0].Schema.OpenAPIV3Schema), []byte(object.Object))
		}
	}
	for schemaText, doc := range map[string]string{
		`{"type":"object","properties":{"a":{"type":"array","default":[null],"items":{"type":"string","nullable":true}}}}`:                                                          `{"a":null}`,
		`{"type":"object","additionalProperties":{"type":"object","properties":{"b":{"type":"integer","default":1}}}}`:                                                              `{"a":{},"metadata":{"x":1}}`,
		`{"type":"object","properties":{"a":{"x-kubernetes-int-or-string":true,"enum":[1,"x"]}}}`:                                                                                   `{"a":1.0}`,
		`{"type":"object","properties":{"e":{"type":"object","x-kubernetes-embedded-resource":true,"x-kubernetes-preserve-unknown-fields":true}}}`:                                  `{"e":{"metadata":5}}`,
		`{"type":"object","properties":{"n":{"type":"number","multipleOf":0.1,"x-kubernetes-validations":[{"rule":"self < 1.0"}]}}}`:                                                `{"n":1e308}`,
		`{"type":"object","x-kubernetes-preserve-unknown-fields":true,"properties":{"a":{"type":"string","x-kubernetes-validations":[{"rule":"self == oldSelf"}]}}}`:                `{"a":"b","z":[[[]]]}`,
		`{"type":"object","properties":{"l":{"type":"array","x-kubernetes-list-type":"set","items":{"type":"array","x-kubernetes-list-type":"atomic","items":{"type":"string"}}}}}`: `{"l":[["a"],["a"]]}`,
	} {
		f.Add([]byte(schemaText), []byte(doc))
	}
}
