package policy

import (
	policyv1 "k8s.io/api/policy/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/intstr"

	"mainstay.dev/mainstay/internal/apis/builtin/validation"
)

func validateBudget(f validation.Field, budget, old *policyv1.PodDisruptionBudget) {
	f, spec := f.Child("spec"), &budget.Spec
	if spec.MinAvailable != nil && spec.MaxUnavailable != nil {
		f.Invalid(spec, "minAvailable and maxUnavailable cannot be both set")
	}
	validateLimit(f.Child("minAvailable"), spec.MinAvailable)
	validateLimit(f.Child("maxUnavailable"), spec.MaxUnavailable)
	if old != nil && f.Violates(func(f validation.Field) { f.LabelSelector(old.Spec.Selector) }) {
		f.Child("selector").LooseLabelSelector(spec.Selector)
	} else {
		f.Child("selector").LabelSelector(spec.Selector)
	}
	if policy := spec.UnhealthyPodEvictionPolicy; policy != nil {
		validation.OneOf(f.Child("unhealthyPodEvictionPolicy"), *policy, policyv1.AlwaysAllow, policyv1.IfHealthyBudget)
	}
}

func validateLimit(f validation.Field, limit *intstr.IntOrString) {
	if limit != nil {
		f.NumberOrPercent(*limit)
		f.AtMost100Percent(*limit)
	}
}

func validateBudgetStatus(f validation.Field, budget, _ *policyv1.PodDisruptionBudget) {
	f, status := f.Child("status"), &budget.Status
	if len(status.Conditions) > 0 {
		f.Add(metav1validation.ValidateConditions(status.Conditions, f.Child("conditions").Path())...)
	}
	f.Child("disruptionsAllowed").NonNegative(int64(status.DisruptionsAllowed))
	f.Child("currentHealthy").NonNegative(int64(status.CurrentHealthy))
	f.Child("desiredHealthy").NonNegative(int64(status.DesiredHealthy))
	f.Child("expectedPods").NonNegative(int64(status.ExpectedPods))
}
