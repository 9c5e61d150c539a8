package custom

import (
	"bytes"
	"fmt"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// statusFields are the fields of a definition's status that the server writes.
func statusFields(crd *apiextensionsv1.CustomResourceDefinition) *metav1.FieldsV1 {
	set := fieldpath.NewSet()
	given := &crd.Status.AcceptedNames
	for name, said := range map[string]bool{
		"plural": given.Plural != "", "kind": given.Kind != "", "singular": given.Singular != "", "listKind": given.ListKind != "",
		"shortNames": len(given.ShortNames) > 0, "categories": len(given.Categories) > 0,
	} {
		if said {
			set.Insert(fieldpath.MakePathOrDie("status", "acceptedNames", name))
		}
	}
	for i := range crd.Status.Conditions {
		key := fieldpath.KeyByFields("type", string(crd.Status.Conditions[i].Type))
		set.Insert(fieldpath.MakePathOrDie("status", "conditions", key))
		for _, name := range []string{"lastTransitionTime", "message", "reason", "status", "type"} {
			set.Insert(fieldpath.MakePathOrDie("status", "conditions", key, name))
		}
	}
	encoded, err := set.ToJSON()
	if err != nil {
		panic(fmt.Sprintf("custom: own set of fields cannot be encoded: %v", err))
	}
	return &metav1.FieldsV1{Raw: bytes.Clone(encoded)}
}
