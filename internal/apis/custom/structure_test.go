package custom

import (
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"mainstay.dev/mainstay/internal/apis/custom/definition"
)

// TestStructureWithoutGeneration checks that the NonStructuralSchema condition is also removed from a
// definition that was stored without a generation.
func TestStructureWithoutGeneration(t *testing.T) {
	t.Parallel()
	for _, generation := range []int64{0, 1} {
		crd := &apiextensionsv1.CustomResourceDefinition{}
		crd.Generation = generation
		definition.SetCondition(crd, apiextensionsv1.CustomResourceDefinitionCondition{Type: apiextensionsv1.NonStructuralSchema, Status: apiextensionsv1.ConditionTrue}, time.Now())
		if !(structure{checked: true, generation: 1}).apply(crd, time.Now()) || len(crd.Status.Conditions) > 0 {
			t.Errorf("generation %d: %+v", generation, crd.Status.Conditions)
		}
	}
}
