package policy

import (
	"testing"

	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"mainstay.dev/mainstay/internal/apis/builtin/validation/validationtest"
)

func newBudget(value string) func() *policyv1.PodDisruptionBudget {
	return func() *policyv1.PodDisruptionBudget {
		limit := intstr.FromString("100%")
		return &policyv1.PodDisruptionBudget{Spec: policyv1.PodDisruptionBudgetSpec{MinAvailable: &limit, Selector: selector(value)}}
	}
}

func selector(value string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{
		Key: "k", Operator: metav1.LabelSelectorOpIn, Values: []string{value},
	}}}
}

func TestBudgets(t *testing.T) {
	t.Parallel()
	validationtest.Rules[policyv1.PodDisruptionBudget](validateBudget).Create(t, newBudget("v"), []validationtest.Case[policyv1.PodDisruptionBudget]{
		{Name: "no selector", Change: func(b *policyv1.PodDisruptionBudget) { b.Spec.Selector = nil }},
		{Name: "no limit", Change: func(b *policyv1.PodDisruptionBudget) { b.Spec.MinAvailable = nil }},
		{Name: "more than 100 %", Change: func(b *policyv1.PodDisruptionBudget) { b.Spec.MinAvailable.StrVal = "101%" },
			Want: []string{`spec.minAvailable: Invalid value: "101%": must not be greater than 100%`}},
		{Name: "two limits", Change: func(b *policyv1.PodDisruptionBudget) { b.Spec.MaxUnavailable = b.Spec.MinAvailable },
			Want: []string{"minAvailable and maxUnavailable cannot be both set"}},
		{Name: "an invalid label value", Change: func(b *policyv1.PodDisruptionBudget) { b.Spec.Selector = selector("-") },
			Want: []string{"spec.selector.matchExpressions[0].values[0]"}},
	})
}

func TestBudgetUpdates(t *testing.T) {
	t.Parallel()
	rules := validationtest.Rules[policyv1.PodDisruptionBudget](validateBudget)
	rules.Update(t, newBudget("v"), []validationtest.Case[policyv1.PodDisruptionBudget]{
		{Name: "another selector", Change: func(b *policyv1.PodDisruptionBudget) { b.Spec.Selector = selector("w") }},
		{Name: "an invalid label value", Change: func(b *policyv1.PodDisruptionBudget) { b.Spec.Selector = selector("-") },
			Want: []string{"spec.selector.matchExpressions[0].values[0]"}},
	})
	rules.Update(t, newBudget("-"), []validationtest.Case[policyv1.PodDisruptionBudget]{
		{Name: "another invalid label value", Change: func(b *policyv1.PodDisruptionBudget) { b.Spec.Selector = selector("_") }},
		{Name: "an invalid label key", Change: func(b *policyv1.PodDisruptionBudget) { b.Spec.Selector.MatchLabels = map[string]string{"-": ""} },
			Want: []string{"spec.selector.matchLabels"}},
	})
}
