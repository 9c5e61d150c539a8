package rbac

import (
	rbacv1 "k8s.io/api/rbac/v1"

	"mainstay.dev/mainstay/internal/apis/builtin/validation"
)

func validateRole(f validation.Field, role, _ *rbacv1.Role) {
	for i := range role.Rules {
		rule, at := &role.Rules[i], f.Child("rules").Index(i)
		if len(rule.NonResourceURLs) > 0 {
			at.Child("nonResourceURLs").Invalid(rule.NonResourceURLs, "namespaced rules cannot apply to non-resource URLs")
		}
		validatePolicyRule(at, rule)
	}
}

func validateClusterRole(f validation.Field, role, _ *rbacv1.ClusterRole) {
	for i := range role.Rules {
		validatePolicyRule(f.Child("rules").Index(i), &role.Rules[i])
	}
	if role.AggregationRule != nil {
		validateAggregation(f.Child("aggregationRule").Child("clusterRoleSelectors"), role.AggregationRule)
	}
}

// validatePolicyRule validates a rule, which applies either to resources or to URL paths.
func validatePolicyRule(f validation.Field, rule *rbacv1.PolicyRule) {
	if len(rule.Verbs) == 0 {
		f.Child("verbs").Required("verbs must contain at least one value")
	}
	if len(rule.NonResourceURLs) > 0 {
		if len(rule.APIGroups)+len(rule.Resources)+len(rule.ResourceNames) > 0 {
			f.Child("nonResourceURLs").Invalid(rule.NonResourceURLs, "rules cannot apply to both regular resources and non-resource URLs")
		}
		return
	}
	if len(rule.APIGroups) == 0 {
		f.Child("apiGroups").Required("resource rules must supply at least one api group")
	}
	if len(rule.Resources) == 0 {
		f.Child("resources").Required("resource rules must supply at least one resource")
	}
}

// validateAggregation validates an aggregation rule. As in kube-apiserver, an invalid selector causes two
// errors: a specific one and a generic one.
func validateAggregation(f validation.Field, rule *rbacv1.AggregationRule) {
	if len(rule.ClusterRoleSelectors) == 0 {
		f.Required("at least one clusterRoleSelector required if aggregationRule is non-nil")
	}
	for i := range rule.ClusterRoleSelectors {
		at, before := f.Index(i), f.ErrorCount()
		at.LabelSelector(&rule.ClusterRoleSelectors[i])
		if f.ErrorCount() > before {
			at.Invalid(nil, "invalid label selector.")
		}
	}
}
