package custom

import (
	"bytes"
	"fmt"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// statusFields returns the server-owned fields of a definition's status, except those equal in
// same, which may be nil.
func statusFields(status, same *apiextensionsv1.CustomResourceDefinitionStatus) *fieldpath.Set {
	if same == nil {
		same = &apiextensionsv1.CustomResourceDefinitionStatus{}
	}
	set := fieldpath.NewSet()
	given, had := &status.AcceptedNames, &same.AcceptedNames
	for name, differs := range map[string]bool{
		"plural": given.Plural != had.Plural, "kind": given.Kind != had.Kind, "singular": given.Singular != had.Singular, "listKind": given.ListKind != had.ListKind,
		"shortNames": !slices.Equal(given.ShortNames, had.ShortNames), "categories": !slices.Equal(given.Categories, had.Categories),
	} {
		if differs {
			set.Insert(fieldpath.MakePathOrDie("status", "acceptedNames", name))
		}
	}
	for _, c := range status.Conditions {
		i := slices.IndexFunc(same.Conditions, func(other apiextensionsv1.CustomResourceDefinitionCondition) bool { return other.Type == c.Type })
		key := fieldpath.KeyByFields("type", string(c.Type))
		var was apiextensionsv1.CustomResourceDefinitionCondition
		if i < 0 {
			set.Insert(fieldpath.MakePathOrDie("status", "conditions", key))
		} else {
			was = same.Conditions[i]
		}
		for name, differs := range map[string]bool{
			"lastTransitionTime": !c.LastTransitionTime.Equal(&was.LastTransitionTime), "message": c.Message != was.Message,
			"reason": c.Reason != was.Reason, "status": c.Status != was.Status, "type": c.Type != was.Type,
		} {
			if differs || i < 0 {
				set.Insert(fieldpath.MakePathOrDie("status", "conditions", key, name))
			}
		}
	}
	return set
}

// splitManagedFields returns the managed fields after a status change by the server: it owns its
// changes and its previous fields that still exist; other managers lose the changed fields.
func splitManagedFields(entries []metav1.ManagedFieldsEntry, isOwn func(*metav1.ManagedFieldsEntry) bool, was, now *apiextensionsv1.CustomResourceDefinitionStatus) (own *metav1.FieldsV1, others []metav1.ManagedFieldsEntry) {
	changed := statusFields(now, was)
	mine := changed
	for i := range entries {
		entry := entries[i]
		set := fieldpath.NewSet()
		switch {
		case entry.FieldsV1 == nil || !bytes.Contains(entry.FieldsV1.Raw, []byte(`"f:status"`)),
			set.FromJSON(bytes.NewReader(entry.FieldsV1.Raw)) != nil: // preserved
			others = append(others, entry)
		case isOwn(&entry):
			mine = mine.Union(set)
		default:
			if left := set.Difference(changed); !left.Empty() {
				if left.Size() < set.Size() {
					entry.FieldsV1 = encodeFields(left)
				}
				others = append(others, entry)
			}
		}
	}
	return encodeFields(mine.Intersection(statusFields(now, nil))), others
}

func encodeFields(set *fieldpath.Set) *metav1.FieldsV1 {
	encoded, err := set.ToJSON()
	if err != nil {
		panic(fmt.Sprintf("custom: own set of fields cannot be encoded: %v", err))
	}
	return &metav1.FieldsV1{Raw: bytes.Clone(encoded)}
}
