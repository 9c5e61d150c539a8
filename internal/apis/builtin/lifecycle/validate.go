package lifecycle

import (
	"fmt"

	lifecyclev1alpha1 "k8s.io/api/lifecycle/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"

	declared "mainstay.dev/mainstay/internal/apis/builtin/declarative/lifecycle"
	"mainstay.dev/mainstay/internal/apis/builtin/validation"
)

// The rules for both specs are declared by +k8s markers in k8s.io/api.

func validateRequest(f validation.Field, request, old *lifecyclev1alpha1.EvictionRequest) {
	validation.ValidateDeclared(f, declared.Validate_EvictionRequest, request, old, "")
}

func validateRequestStatus(f validation.Field, request, old *lifecyclev1alpha1.EvictionRequest) {
	validateConditions(f.Child("status").Child("conditions"), request.Status.Conditions)
	validation.ValidateDeclared(f, declared.Validate_EvictionRequest, request, old, "status")
}

func validateEviction(f validation.Field, eviction, old *lifecyclev1alpha1.Eviction) {
	validation.ValidateDeclared(f, declared.Validate_Eviction, eviction, old, "")
}

func validateEvictionStatus(f validation.Field, eviction, old *lifecyclev1alpha1.Eviction) {
	at, status := f.Child("status"), &eviction.Status
	conditions := at.Child("conditions")
	validateConditions(conditions, status.Conditions)
	over := validateFinal(conditions, status.Conditions, old.Status.Conditions)
	validateResponders(at, status, &old.Status, over)
	validation.ValidateDeclared(f, declared.Validate_Eviction, eviction, old, "status")
}

func validateConditions(f validation.Field, conditions []metav1.Condition) {
	for i := range conditions {
		f.Add(metav1validation.ValidateCondition(conditions[i], f.Index(i).Path())...)
	}
}

// validateFinal rejects changes to a final condition that is true. It reports whether the eviction has ended.
func validateFinal(f validation.Field, conditions, old []metav1.Condition) (over bool) {
	for _, final := range [...]lifecyclev1alpha1.EvictionConditionType{lifecyclev1alpha1.EvictionConditionTargetEvicted, lifecyclev1alpha1.EvictionConditionFailed} {
		now, before := conditionOf(conditions, final), conditionOf(old, final)
		over = over || isTrue(now) || isTrue(before)
		if isTrue(before) && validation.Changed(now, before) {
			f.Invalid(conditions, fmt.Sprintf("%s condition status cannot be reverted", final))
		}
	}
	return over
}

func conditionOf(conditions []metav1.Condition, kind lifecyclev1alpha1.EvictionConditionType) *metav1.Condition {
	for i := range conditions {
		if conditions[i].Type == string(kind) {
			return &conditions[i]
		}
	}
	return nil
}

func isTrue(c *metav1.Condition) bool { return c != nil && c.Status == metav1.ConditionTrue }
