package custom

import (
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"mainstay.dev/mainstay/internal/apis/custom/definition"
	"mainstay.dev/mainstay/internal/codec"
)

// structure is the condition NonStructuralSchema of a generation of a definition. The zero value
// belongs to no generation and leaves the condition unchanged.
type structure struct {
	known      bool
	generation int64
	// condition is nil where the schemas are structural.
	condition *apiextensionsv1.CustomResourceDefinitionCondition
}

// apply sets or removes the condition. It reports whether anything changed.
func (s structure) apply(crd *apiextensionsv1.CustomResourceDefinition, now time.Time) bool {
	switch {
	case !s.known || s.generation != generationOf(crd):
		return false
	case s.condition == nil:
		return definition.RemoveCondition(crd, apiextensionsv1.NonStructuralSchema)
	}
	return definition.SetCondition(crd, *s.condition, now)
}

// structureOpen reports whether the schemas of a definition must be checked: if it preserves
// unknown fields, as all definitions that may have non-structural schemas do, or if it did before.
func (l *loop) structureOpen(e *entry) bool {
	return (e.keepsUnknown || e.nonStructural) && l.structures[e.uid] != max(e.generation, 1)
}

// generationOf returns the generation of a definition. Old definitions were stored without one.
func generationOf(crd *apiextensionsv1.CustomResourceDefinition) int64 { return max(crd.Generation, 1) }

// structureOf looks at the schemas of a definition, if they are to be looked at;
// crd is without them.
func (l *loop) structureOf(crd *apiextensionsv1.CustomResourceDefinition, record *codec.Record) (structure, error) {
	if l.structures[crd.UID] == generationOf(crd) {
		return structure{}, nil // once: another server may use a different message
	}
	if !crd.Spec.PreserveUnknownFields && definition.FindCondition(crd, apiextensionsv1.NonStructuralSchema) == nil {
		return structure{}, nil
	}
	whole, err := crdOf(record)
	if err != nil {
		return structure{}, err
	}
	condition, err := definition.NonStructuralSchema(whole)
	if err != nil {
		return structure{}, err
	}
	l.structures[crd.UID] = generationOf(crd)
	return structure{known: true, generation: generationOf(crd), condition: condition}, nil
}
