package scheduling

import (
	"slices"

	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"

	declaredv1alpha3 "mainstay.dev/mainstay/internal/apis/builtin/declarative/scheduling/v1alpha3"
	declared "mainstay.dev/mainstay/internal/apis/builtin/declarative/scheduling/v1beta1"
	"mainstay.dev/mainstay/internal/apis/builtin/validation"
)

func validatePodGroup(f validation.Field, group, old *schedulingv1beta1.PodGroup) {
	validation.ValidateDeclared(f, declared.Validate_PodGroup, group, old, "")
}

func validatePodGroupStatus(f validation.Field, group, old *schedulingv1beta1.PodGroup) {
	at := f.Child("status")
	validateConditions(at.Child("conditions"), group.Status.Conditions)
	for i := range group.Status.ResourceClaimStatuses {
		name := group.Status.ResourceClaimStatuses[i].Name
		if !slices.ContainsFunc(group.Spec.ResourceClaims, func(c schedulingv1beta1.PodGroupResourceClaim) bool { return c.Name == name }) {
			at.Child("resourceClaimStatuses").Index(i).Child("name").Invalid(name, "must match the name of an entry in `spec.resourceClaims`")
		}
	}
	validation.ValidateDeclared(f, declared.Validate_PodGroup, group, old, "status")
}

func validateCompositePodGroup(f validation.Field, group, old *schedulingv1alpha3.CompositePodGroup) {
	validation.ValidateDeclared(f, declaredv1alpha3.Validate_CompositePodGroup, group, old, "")
}

func validateCompositePodGroupStatus(f validation.Field, group, old *schedulingv1alpha3.CompositePodGroup) {
	validateConditions(f.Child("status").Child("conditions"), group.Status.Conditions)
	validation.ValidateDeclared(f, declaredv1alpha3.Validate_CompositePodGroup, group, old, "status")
}

func validateConditions(f validation.Field, conditions []metav1.Condition) {
	if len(conditions) > 0 {
		f.Add(metav1validation.ValidateConditions(conditions, f.Path())...)
	}
}
