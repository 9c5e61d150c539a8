package custom

import (
	"bytes"
	"fmt"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// statusFields returns the set of the status fields that the server writes, which are the accepted names and
// the conditions. It omits fields that have the same value in except, which may be nil.
func statusFields(status, except *apiextensionsv1.CustomResourceDefinitionStatus) *fieldpath.Set {
	if except == nil {
		except = &apiextensionsv1.CustomResourceDefinitionStatus{}
	}
	set := fieldpath.NewSet()
	current, previous := &status.AcceptedNames, &except.AcceptedNames
	for name, differs := range map[string]bool{
		"plural": current.Plural != previous.Plural, "kind": current.Kind != previous.Kind, "singular": current.Singular != previous.Singular, "listKind": current.ListKind != previous.ListKind,
		"shortNames": !slices.Equal(current.ShortNames, previous.ShortNames), "categories": !slices.Equal(current.Categories, previous.Categories),
	} {
		if differs {
			set.Insert(fieldpath.MakePathOrDie("status", "acceptedNames", name))
		}
	}
	for _, c := range status.Conditions {
		i := slices.IndexFunc(except.Conditions, func(other apiextensionsv1.CustomResourceDefinitionCondition) bool { return other.Type == c.Type })
		key := fieldpath.KeyByFields("type", string(c.Type))
		var was apiextensionsv1.CustomResourceDefinitionCondition
		if i < 0 {
			set.Insert(fieldpath.MakePathOrDie("status", "conditions", key))
		} else {
			was = except.Conditions[i]
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

// splitManagedFields returns the managed fields after the server has changed a status from was to now. own
// contains the changed fields, and the fields that the server owned before and that still exist. others
// contains the entries of other managers, without the changed fields. Entries that cannot be decoded are
// preserved.
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
