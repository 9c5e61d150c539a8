package crds

import (
	"net/http"
	"strings"
	"testing"

	openapi_v2 "github.com/google/gnostic-models/openapiv2"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/kube-openapi/pkg/util/proto"
)

// liveOpenAPI reads the complete OpenAPI v2 document, as kubectl does. A definition whose schema v2 cannot
// express must not affect other definitions.
func liveOpenAPI(t *testing.T, env *environment) {
	crd := define(t, "openapi.live.example.com", "Note", `
type: object
description: A note.
properties:
  spec:
    type: object
    properties:
      text: {type: string, description: What it says., nullable: true}
      either: {anyOf: [{type: integer}, {type: string}], x-kubernetes-int-or-string: true}
      map: {type: object, additionalProperties: {type: integer}}
      any: {x-kubernetes-preserve-unknown-fields: true}
      list: {type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [k], items: {type: object, required: [k], properties: {k: {type: string}}}}
`)
	hidden := define(t, "openapi.live.example.com", "Hidden", anything, func(crd *apiextensionsv1.CustomResourceDefinition) {
		crd.Spec.PreserveUnknownFields = false
	})
	env.install(t, crd)
	env.install(t, hidden)
	var models proto.Models
	eventually(t, func() error {
		a := env.send(t, http.MethodGet, "/openapi/v2", nil)
		document, err := openapi_v2.ParseDocument(a.body)
		if err != nil {
			return err
		}
		models, err = proto.NewOpenAPIData(document)
		return err
	})
	model := models.LookupModel("com.example.live.openapi.v1.Note")
	if model == nil || models.LookupModel("com.example.live.openapi.v1.Hidden") == nil {
		t.Fatalf("no model among %d", len(models.ListModels()))
	}
	kind, ok := model.(*proto.Kind)
	if !ok || !strings.Contains(model.GetDescription(), "A note.") {
		t.Fatalf("model %T with description %q, want a *proto.Kind with the schema's description", model, model.GetDescription())
	}
	for _, name := range []string{"apiVersion", "kind", "metadata", "spec"} {
		if kind.Fields[name] == nil {
			t.Errorf("%s is missing", name)
		}
	}
}
