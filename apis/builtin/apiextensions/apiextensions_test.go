package apiextensions

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

func definition(versions ...string) *apiextensionsv1.CustomResourceDefinition {
	crd := &apiextensionsv1.CustomResourceDefinition{}
	crd.Spec.Group, crd.Spec.Names.Plural = "example.com", "things"
	for i, name := range versions {
		crd.Spec.Versions = append(crd.Spec.Versions, apiextensionsv1.CustomResourceDefinitionVersion{Name: name, Storage: i == len(versions)-1})
	}
	return crd
}

func TestStoredVersions(t *testing.T) {
	t.Parallel()
	crd := definition("v1", "v2")
	prepare(t.Context(), crd)
	if diff := cmp.Diff([]string{"v2"}, crd.Status.StoredVersions); diff != "" {
		t.Errorf("created:\n%s", diff)
	}
	updated := definition("v1", "v2", "v3")
	updated.Status = crd.Status
	prepareUpdate(t.Context(), updated, crd)
	prepareUpdate(t.Context(), updated, crd)
	if diff := cmp.Diff([]string{"v2", "v3"}, updated.Status.StoredVersions); diff != "" {
		t.Errorf("updated:\n%s", diff)
	}
	if diff := cmp.Diff([]string{"v2"}, crd.Status.StoredVersions); diff != "" {
		t.Errorf("the old one was changed:\n%s", diff)
	}
}

func TestName(t *testing.T) {
	t.Parallel()
	crd := definition("v1")
	for name, want := range map[string]string{
		"things.example.com": "",
		"a.b":                `metadata.name: Invalid value: "a.b": must be spec.names.plural+"."+spec.group`,
	} {
		crd.Name = name
		got := ""
		if err := validateName(t.Context(), crd).ToAggregate(); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}
