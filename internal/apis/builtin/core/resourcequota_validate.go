package core

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"

	"mainstay.dev/mainstay/internal/apis/builtin/podspec"
	"mainstay.dev/mainstay/internal/apis/builtin/validation"
)

func validateResourceQuota(f validation.Field, quota, old *corev1.ResourceQuota) {
	f, spec := f.Child("spec"), &quota.Spec
	validateQuotaAmounts(f.Child("hard"), spec.Hard)
	validateScopes(f.Child("scopes"), spec)
	if spec.ScopeSelector != nil {
		validateScopeSelector(f, spec)
	}
	if old != nil && !sameScopes(spec.Scopes, old.Spec.Scopes) {
		f.Child("scopes").Invalid(spec.Scopes, apivalidation.FieldImmutableErrorMsg)
	}
}

func validateResourceQuotaStatus(f validation.Field, quota, _ *corev1.ResourceQuota) {
	validateQuotaAmounts(f.Child("status").Child("hard"), quota.Status.Hard)
	validateQuotaAmounts(f.Child("status").Child("used"), quota.Status.Used)
}

func validateQuotaAmounts(f validation.Field, amounts corev1.ResourceList) {
	for name, quantity := range amounts {
		at := f.Key(string(name))
		podspec.ValidateResourceName(at, name)
		if !strings.Contains(string(name), "/") && !isQuotaResource(name) {
			at.Invalid(name, "must be a standard resource for quota")
		}
		podspec.ValidateQuantity(at, name, quantity)
	}
}

// isQuotaResource reports whether quotas can limit a resource whose name has no prefix. Quotas can limit
// storage only with the prefix "requests.".
func isQuotaResource(name corev1.ResourceName) bool {
	return podspec.IsStandardResource(name) && name != corev1.ResourceStorage
}

const (
	unsupportedScope  = "unsupported scope"
	inapplicableScope = "unsupported scope applied to resource"
	conflictingScopes = "conflicting scopes"
)

// validateScopes validates the scopes of a quota. Some scopes apply only to some resources.
func validateScopes(f validation.Field, spec *corev1.ResourceQuotaSpec) {
	seen, rules := validation.NewDuplicates[corev1.ResourceQuotaScope](len(spec.Scopes)), newScopeRules(spec.Hard)
	for _, scope := range spec.Scopes {
		seen.IsDuplicate(scope)
		if !isScope(scope) {
			f.Invalid(spec.Scopes, unsupportedScope)
		} else if !rules.applies(scope) {
			f.Invalid(spec.Scopes, inapplicableScope)
		}
	}
	if conflict(&seen) {
		f.Invalid(spec.Scopes, conflictingScopes)
	}
}

// validateScopeSelector validates the scope selector, the newer form of scopes, in which scopes have values.
// As in kube-apiserver, the paths of errors do not contain the index of the expression.
func validateScopeSelector(f validation.Field, spec *corev1.ResourceQuotaSpec) {
	f, expressions := f.Child("scopeSelector").Child("matchExpressions"), spec.ScopeSelector.MatchExpressions
	seen, rules := validation.NewDuplicates[corev1.ResourceQuotaScope](len(expressions)), newScopeRules(spec.Hard)
	for i := range expressions {
		r := &expressions[i]
		seen.IsDuplicate(r.ScopeName)
		if !isScope(r.ScopeName) {
			f.Child("scopeName").Invalid(r.ScopeName, unsupportedScope)
		} else if !rules.applies(r.ScopeName) {
			f.Invalid(spec.ScopeSelector, inapplicableScope)
		}
		validateScopeOperator(f, r)
	}
	if conflict(&seen) {
		f.Invalid(spec.Scopes, conflictingScopes)
	}
}

func validateScopeOperator(f validation.Field, r *corev1.ScopedResourceSelectorRequirement) {
	switch r.ScopeName {
	case corev1.ResourceQuotaScopeBestEffort, corev1.ResourceQuotaScopeNotBestEffort, corev1.ResourceQuotaScopeTerminating,
		corev1.ResourceQuotaScopeNotTerminating, corev1.ResourceQuotaScopeCrossNamespacePodAffinity:
		if r.Operator != corev1.ScopeSelectorOpExists {
			f.Child("operator").Invalid(r.Operator, "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, "+
				"ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity")
		}
	}
	switch r.Operator {
	case corev1.ScopeSelectorOpIn, corev1.ScopeSelectorOpNotIn:
		if len(r.Values) == 0 {
			f.Child("values").Required("must be at least one value when `operator` is 'In' or 'NotIn' for scope selector")
		}
	case corev1.ScopeSelectorOpExists, corev1.ScopeSelectorOpDoesNotExist:
		if len(r.Values) > 0 {
			f.Child("values").Invalid(r.Values, "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector")
		}
	default:
		f.Child("operator").Invalid(r.Operator, "not a valid selector operator")
	}
}

func isScope(scope corev1.ResourceQuotaScope) bool {
	switch scope {
	case corev1.ResourceQuotaScopeTerminating, corev1.ResourceQuotaScopeNotTerminating, corev1.ResourceQuotaScopeBestEffort,
		corev1.ResourceQuotaScopeNotBestEffort, corev1.ResourceQuotaScopePriorityClass,
		corev1.ResourceQuotaScopeCrossNamespacePodAffinity, corev1.ResourceQuotaScopeVolumeAttributesClass:
		return true
	}
	return false
}

// scopeRules determines whether scopes apply to the resources of a quota. It caches the result for each scope,
// because a list can contain the same scope many times.
type scopeRules struct {
	hard    corev1.ResourceList
	results map[corev1.ResourceQuotaScope]bool
}

func newScopeRules(hard corev1.ResourceList) scopeRules {
	return scopeRules{hard, map[corev1.ResourceQuotaScope]bool{}}
}

// applies reports whether a scope applies to all unprefixed resources of the quota.
func (r scopeRules) applies(scope corev1.ResourceQuotaScope) bool {
	result, known := r.results[scope]
	if !known {
		result = appliesToAll(scope, r.hard)
		r.results[scope] = result
	}
	return result
}

func appliesToAll(scope corev1.ResourceQuotaScope, hard corev1.ResourceList) bool {
	for name := range hard {
		if isQuotaResource(name) && !scoped(scope, name) {
			return false
		}
	}
	return true
}

func scoped(scope corev1.ResourceQuotaScope, name corev1.ResourceName) bool {
	switch scope {
	case corev1.ResourceQuotaScopeBestEffort:
		return name == corev1.ResourcePods
	case corev1.ResourceQuotaScopeVolumeAttributesClass:
		return name == corev1.ResourcePersistentVolumeClaims || name == corev1.ResourceRequestsStorage
	case corev1.ResourceQuotaScopeTerminating, corev1.ResourceQuotaScopeNotTerminating, corev1.ResourceQuotaScopeNotBestEffort,
		corev1.ResourceQuotaScopePriorityClass, corev1.ResourceQuotaScopeCrossNamespacePodAffinity:
		switch name {
		case corev1.ResourcePods, corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceRequestsCPU, corev1.ResourceRequestsMemory,
			corev1.ResourceLimitsCPU, corev1.ResourceLimitsMemory:
			return true
		}
		return false
	}
	return true
}

// conflict reports whether two of the scopes exclude each other.
func conflict(scopes *validation.Duplicates[corev1.ResourceQuotaScope]) bool {
	return scopes.Has(corev1.ResourceQuotaScopeBestEffort) && scopes.Has(corev1.ResourceQuotaScopeNotBestEffort) ||
		scopes.Has(corev1.ResourceQuotaScopeTerminating) && scopes.Has(corev1.ResourceQuotaScopeNotTerminating)
}

// sameScopes reports whether two lists contain the same scopes, regardless of order.
func sameScopes(scopes, old []corev1.ResourceQuotaScope) bool {
	return hasAll(scopes, old) && hasAll(old, scopes)
}

func hasAll(scopes, wanted []corev1.ResourceQuotaScope) bool {
	seen := validation.NewDuplicates[corev1.ResourceQuotaScope](len(scopes))
	for _, scope := range scopes {
		seen.IsDuplicate(scope)
	}
	return !slices.ContainsFunc(wanted, func(scope corev1.ResourceQuotaScope) bool { return !seen.Has(scope) })
}
