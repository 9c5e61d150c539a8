package custom

import (
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"mainstay.dev/mainstay/internal/apis/custom/definition"
	"mainstay.dev/mainstay/internal/codec"
)

// structure is the result of checking the schemas of a generation of a definition. The zero value leaves the
// NonStructuralSchema condition unchanged.
type structure struct {
	checked    bool
	generation int64
	// condition is nil if the schemas are structural.
	condition *apiextensionsv1.CustomResourceDefinitionCondition
}

// apply sets or removes the NonStructuralSchema condition, unless crd has another generation. It reports
// whether the conditions changed.
func (s structure) apply(crd *apiextensionsv1.CustomResourceDefinition, now time.Time) bool {
	switch {
	case !s.checked || s.generation != generationOf(crd):
		return false
	case s.condition == nil:
		return definition.RemoveCondition(crd, apiextensionsv1.NonStructuralSchema)
	}
	return definition.SetCondition(crd, *s.condition, now)
}

// needsCheck reports whether the schemas of a definition must be checked. They are checked once per generation
// if the definition preserves unknown fields, as all definitions with non-structural schemas do, or if it has
// the NonStructuralSchema condition.
func (c *controller) needsCheck(e *entry) bool {
	return (e.preservesUnknown || e.nonStructural) && c.checkedSchemas[e.uid] != max(e.generation, 1)
}

// generationOf returns the generation of a definition, or 1 for old definitions that were stored without a
// generation.
func generationOf(crd *apiextensionsv1.CustomResourceDefinition) int64 { return max(crd.Generation, 1) }

// checkStructure checks the schemas of a definition if that is necessary. crd has no schemas; record is
// the complete definition.
func (c *controller) checkStructure(crd *apiextensionsv1.CustomResourceDefinition, record *codec.Record) (structure, error) {
	if c.checkedSchemas[crd.UID] == generationOf(crd) {
		return structure{}, nil // once per generation, because another server may write a different message
	}
	if !crd.Spec.PreserveUnknownFields && definition.FindCondition(crd, apiextensionsv1.NonStructuralSchema) == nil {
		return structure{}, nil
	}
	complete, err := decodeDefinition(record)
	if err != nil {
		return structure{}, err
	}
	condition, err := definition.NonStructuralSchema(complete)
	if err != nil {
		return structure{}, err
	}
	c.checkedSchemas[crd.UID] = generationOf(crd)
	return structure{checked: true, generation: generationOf(crd), condition: condition}, nil
}
