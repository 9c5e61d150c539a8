package definition_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"mainstay.dev/mainstay/internal/apis/custom/definition"
)

func definitionOf(versions ...string) *apiextensionsv1.CustomResourceDefinition {
	crd := &apiextensionsv1.CustomResourceDefinition{}
	crd.Name, crd.Spec.Group, crd.Spec.Names.Plural = "things.example.com", "example.com", "things"
	crd.ResourceVersion = "1"
	crd.Spec.Names.Kind, crd.Spec.Scope = "Thing", apiextensionsv1.ClusterScoped
	for i, name := range versions {
		crd.Spec.Versions = append(crd.Spec.Versions, apiextensionsv1.CustomResourceDefinitionVersion{
			Name: name, Served: true, Storage: i == len(versions)-1,
			Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object"}},
		})
	}
	return crd
}

func TestStoredVersions(t *testing.T) {
	t.Parallel()
	crd := definitionOf("v1", "v2")
	definition.Prepare(crd)
	if diff := cmp.Diff([]string{"v2"}, crd.Status.StoredVersions); diff != "" {
		t.Errorf("created:\n%s", diff)
	}
	updated := definitionOf("v1", "v2", "v3")
	updated.Status = crd.Status
	definition.PrepareUpdate(updated, crd)
	definition.PrepareUpdate(updated, crd)
	if diff := cmp.Diff([]string{"v2", "v3"}, updated.Status.StoredVersions); diff != "" {
		t.Errorf("updated:\n%s", diff)
	}
	if diff := cmp.Diff([]string{"v2"}, crd.Status.StoredVersions); diff != "" {
		t.Errorf("the old definition was changed:\n%s", diff)
	}
}

func TestImmutable(t *testing.T) {
	t.Parallel()
	established := []apiextensionsv1.CustomResourceDefinitionCondition{{Type: apiextensionsv1.Established, Status: apiextensionsv1.ConditionTrue}}
	for _, test := range []struct {
		name        string
		established bool
		change      func(*apiextensionsv1.CustomResourceDefinition)
		want        string
	}{
		{"nothing", true, func(*apiextensionsv1.CustomResourceDefinition) {}, ""},
		{"scope of an established definition", true, func(crd *apiextensionsv1.CustomResourceDefinition) {
			crd.Spec.Scope = apiextensionsv1.NamespaceScoped
		}, `spec.scope: Invalid value: "Namespaced": field is immutable`},
		{"scope of a definition that is not established", false, func(crd *apiextensionsv1.CustomResourceDefinition) {
			crd.Spec.Scope = apiextensionsv1.NamespaceScoped
		}, ""},
		{"kind", true, func(crd *apiextensionsv1.CustomResourceDefinition) { crd.Spec.Names.Kind = "Other" }, `spec.names.kind: Invalid value: "Other": field is immutable`},
		{"group", false, func(crd *apiextensionsv1.CustomResourceDefinition) { crd.Spec.Group = "other.com" }, `spec.group: Invalid value: "other.com": field is immutable`},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			old := definitionOf("v1")
			definition.Default(old)
			if test.established {
				old.Status.Conditions = established
			}
			crd := old.DeepCopy()
			test.change(crd)
			got := ""
			if err := definition.ValidateUpdate(t.Context(), crd, old).ToAggregate(); err != nil {
				got = err.Error()
			}
			if got != test.want {
				t.Errorf("%q, want %q", got, test.want)
			}
		})
	}
}
