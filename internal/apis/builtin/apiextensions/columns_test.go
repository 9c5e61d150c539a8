package apiextensions

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestColumns(t *testing.T) {
	t.Parallel()
	crd := &apiextensionsv1.CustomResourceDefinition{}
	crd.Name, crd.CreationTimestamp = "boats.example.com", metav1.NewTime(time.Date(2026, 5, 3, 18, 36, 32, 0, time.FixedZone("CEST", 7200)))
	crd.Spec.Group, crd.Spec.Scope = "example.com", apiextensionsv1.NamespaceScoped
	crd.Spec.Names = apiextensionsv1.CustomResourceDefinitionNames{Kind: "Boat", ShortNames: []string{"b", "bt"}}
	crd.Spec.Versions = []apiextensionsv1.CustomResourceDefinitionVersion{
		{Name: "v2", Served: true}, {Name: "v1", Served: true, Storage: true}, {Name: "v1alpha1"},
	}
	c := columns()
	want := []any{"boats.example.com", "Namespaced", "v1(storage),v2", "2026-05-03T16:36:32Z", "example.com", "Boat", "b,bt", false}
	if diff := cmp.Diff(want, c.Cells(crd, time.Time{})); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if len(c.Definitions) != len(want) {
		t.Errorf("%d columns, want %d", len(c.Definitions), len(want))
	}
	crd.Status.Conditions = []apiextensionsv1.CustomResourceDefinitionCondition{{Type: apiextensionsv1.Established, Status: apiextensionsv1.ConditionTrue}}
	if cells := c.Cells(crd, time.Time{}); cells[7] != true {
		t.Errorf("established: %v", cells[7])
	}
}
