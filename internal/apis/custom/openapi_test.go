package custom

import (
	"fmt"
	"strings"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/storage"
	"mainstay.dev/mainstay/internal/storage/storagetest"
)

// TestModelsOfAVersion checks that the schema of a version is found in the stored definition, even if the
// stored definition is newer than the entry.
func TestModelsOfAVersion(t *testing.T) {
	t.Parallel()
	crd := &apiextensionsv1.CustomResourceDefinition{}
	crd.Name, crd.Spec.Group = "widgets.a.example.com", "a.example.com"
	crd.Spec.Names = apiextensionsv1.CustomResourceDefinitionNames{Plural: "widgets", Kind: "Widget", ListKind: "WidgetList"}
	for _, name := range []string{"v1beta1", "v1"} {
		crd.Spec.Versions = append(crd.Spec.Versions, apiextensionsv1.CustomResourceDefinitionVersion{
			Name: name, Served: true, SelectableFields: []apiextensionsv1.SelectableField{{JSONPath: ".spec." + name}},
		})
	}
	e := newEntry(crd, 1)
	version := func(name string) string {
		return fmt.Sprintf(`{"name":%q,"served":true,"schema":{"openAPIV3Schema":{"type":"object","description":"I am %[1]s."}}}`, name)
	}
	for name, tt := range map[string]struct{ versions, want string }{
		"unchanged":      {version("v1beta1") + "," + version("v1"), "I am v1."},
		"another order":  {version("v1") + "," + version("v1beta1"), "I am v1."},
		"spaces":         {` { "served" : true, "schema":null,"name":"v1beta1"}, ` + version("v1") + " ", "I am v1."},
		"without schema": {version("v1beta1") + `,{"name":"v1"}`, `"type":"object"`},
		"removed":        {version("v1beta1"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			stored := `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"widgets.a.example.com"},"spec":{` +
				`"group":"a.example.com","names":{"plural":"widgets","kind":"Widget","listKind":"WidgetList"},"versions":[` + tt.versions + `]}}`
			record := codec.NewRecord(definitionKind(), types.NamespacedName{Name: crd.Name}, []byte(stored), 2)
			m, err := newModelBuilder(e, e.version("v1"), record)
			if err != nil {
				t.Fatal(err)
			}
			if m == nil {
				if tt.want != "" {
					t.Fatal("the version was not found")
				}
				return
			}
			models, err := m.models(newSchemaWriter(v3Target))
			if err != nil {
				t.Fatal(err)
			}
			if model := string(models["com.example.a.v1.Widget"].JSON); tt.want == "" || !strings.Contains(model, tt.want) || strings.Contains(model, "v1beta1") {
				t.Errorf("model %s, want a model that contains %q", model, tt.want)
			}
			if models["com.example.a.v1.WidgetList"].ListOf != "Widget" {
				t.Errorf("no model of the list in %v", models)
			}
		})
	}
	m := &modelBuilder{group: e.group, names: e.requested, version: *e.version("v1")}
	marks := map[string]any{}
	if m.setKind(marks, "Widget"); !strings.Contains(fmt.Sprint(marks), "fieldPath:spec.v1]") {
		t.Errorf("selectable fields: %v", marks)
	}
}

// TestSchemasOfTheOthers checks that a definition which was deleted, or whose schema is nested too deeply, does
// not affect the schemas of the other definitions in its group version.
func TestSchemasOfTheOthers(t *testing.T) {
	t.Parallel()
	s := sourceOver(t, storagetest.InMemory(t), time.Hour)
	deep := apiextensionsv1.JSONSchemaProps{Type: "string"}
	for range 600 {
		deep = apiextensionsv1.JSONSchemaProps{Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{"a": deep}}
	}
	for plural, kind := range map[string]string{"widgets": "Widget", "deleteds": "Deleted", "deeps": "Deep"} {
		crd := widgetDefinition("example.com")
		crd.Name, crd.UID = plural+".example.com", types.UID(plural)
		crd.Spec.Names = apiextensionsv1.CustomResourceDefinitionNames{Plural: plural, Singular: strings.ToLower(kind), Kind: kind, ListKind: kind + "List"}
		crd.Status.AcceptedNames = crd.Spec.Names
		crd.Status.Conditions = []apiextensionsv1.CustomResourceDefinitionCondition{
			{Type: apiextensionsv1.NamesAccepted, Status: apiextensionsv1.ConditionTrue}, {Type: apiextensionsv1.Established, Status: apiextensionsv1.ConditionTrue},
		}
		if plural == "deeps" {
			crd.Spec.Versions[0].Schema.OpenAPIV3Schema = &deep
		}
		if _, err := s.config.Definitions.Create(t.Context(), crd, storage.WriteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := s.config.Definitions.Delete(t.Context(), types.NamespacedName{Name: "deleteds.example.com"}, nil, storage.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	gv := schema.GroupVersion{Group: "example.com", Version: "v1"}
	if n := len(s.discoveredIn(gv)); n != 3 {
		t.Fatalf("%d definitions are discovered, want 3", n)
	}
	for _, v2 := range []bool{false, true} {
		models, err := s.Schemas(t.Context(), gv, v2)
		if err != nil || len(models) != 2 || models["com.example.v1.Widget"].JSON == nil {
			t.Errorf("v2 %t: %d models, error %v, want the models of Widget and WidgetList", v2, len(models), err)
		}
	}
}
