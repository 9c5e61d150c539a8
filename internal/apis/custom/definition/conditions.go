package definition

import (
	"slices"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// FindCondition returns the condition of the given type, or nil if the definition does not have it. The result
// points into crd.Status.Conditions.
func FindCondition(crd *apiextensionsv1.CustomResourceDefinition, kind apiextensionsv1.CustomResourceDefinitionConditionType) *apiextensionsv1.CustomResourceDefinitionCondition {
	for i := range crd.Status.Conditions {
		if crd.Status.Conditions[i].Type == kind {
			return &crd.Status.Conditions[i]
		}
	}
	return nil
}

// IsTrue reports whether a definition has a condition of the given type with status True.
func IsTrue(crd *apiextensionsv1.CustomResourceDefinition, kind apiextensionsv1.CustomResourceDefinitionConditionType) bool {
	condition := FindCondition(crd, kind)
	return condition != nil && condition.Status == apiextensionsv1.ConditionTrue
}

// SetCondition adds or replaces a condition of crd. If the status of an existing condition does not change,
// its transition time is preserved; otherwise, the transition time is now. The observed generation of an
// existing condition is always preserved. SetCondition reports whether status, reason or message changed.
func SetCondition(crd *apiextensionsv1.CustomResourceDefinition, condition apiextensionsv1.CustomResourceDefinitionCondition, now time.Time) bool {
	condition.LastTransitionTime = metav1.NewTime(now.Truncate(time.Second))
	have := FindCondition(crd, condition.Type)
	if have == nil {
		crd.Status.Conditions = append(crd.Status.Conditions, condition)
		return true
	}
	if have.Status == condition.Status {
		condition.LastTransitionTime = have.LastTransitionTime
	}
	condition.ObservedGeneration = have.ObservedGeneration
	changed := have.Status != condition.Status || have.Reason != condition.Reason || have.Message != condition.Message
	*have = condition
	return changed
}

// RemoveCondition removes the condition of the given type. It reports whether crd had the condition.
func RemoveCondition(crd *apiextensionsv1.CustomResourceDefinition, kind apiextensionsv1.CustomResourceDefinitionConditionType) bool {
	had := len(crd.Status.Conditions)
	crd.Status.Conditions = slices.DeleteFunc(crd.Status.Conditions, func(c apiextensionsv1.CustomResourceDefinitionCondition) bool { return c.Type == kind })
	return len(crd.Status.Conditions) != had
}
