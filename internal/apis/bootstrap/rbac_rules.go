package bootstrap

import (
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
)

// uncovered returns the permissions in required that rules do not grant. Each returned rule has one verb and
// one resource or path.
func uncovered(rules, required []rbacv1.PolicyRule) []rbacv1.PolicyRule {
	var missing []rbacv1.PolicyRule
	for i := range required {
		if slices.ContainsFunc(rules, func(r rbacv1.PolicyRule) bool { return covers(&r, &required[i]) }) {
			continue // the common case: a single rule covers the required rule
		}
		for _, single := range singles(&required[i]) {
			if !slices.ContainsFunc(rules, func(r rbacv1.PolicyRule) bool { return covers(&r, &single) }) {
				missing = append(missing, single)
			}
		}
	}
	return missing
}

// singles splits a rule into rules that each have one verb and one resource or path.
func singles(rule *rbacv1.PolicyRule) []rbacv1.PolicyRule {
	var all []rbacv1.PolicyRule
	for _, verb := range rule.Verbs {
		for _, url := range rule.NonResourceURLs {
			all = append(all, rbacv1.PolicyRule{Verbs: []string{verb}, NonResourceURLs: []string{url}})
		}
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				single := rbacv1.PolicyRule{Verbs: []string{verb}, APIGroups: []string{group}, Resources: []string{resource}}
				for _, name := range rule.ResourceNames {
					named := single
					named.ResourceNames = []string{name}
					all = append(all, named)
				}
				if len(rule.ResourceNames) == 0 {
					all = append(all, single)
				}
			}
		}
	}
	return all
}

// covers reports whether a rule allows everything that another rule allows.
func covers(rule, other *rbacv1.PolicyRule) bool {
	return coversAll(rule.Verbs, other.Verbs, nil) &&
		coversAll(rule.APIGroups, other.APIGroups, nil) &&
		coversAll(rule.Resources, other.Resources, coversSubresource) &&
		coversAll(rule.NonResourceURLs, other.NonResourceURLs, coversBelow) &&
		(len(rule.ResourceNames) == 0 || len(other.ResourceNames) > 0 && coversAll(rule.ResourceNames, other.ResourceNames, nil))
}

// coversAll reports whether each element of required is in values or covered by an element of values.
// An asterisk covers everything.
func coversAll(values, required []string, coveredBy func(value, required string) bool) bool {
	for _, want := range required {
		if !slices.ContainsFunc(values, func(value string) bool {
			return value == want || value == "*" || coveredBy != nil && coveredBy(value, want)
		}) {
			return false
		}
	}
	return true
}

// coversSubresource reports whether value has the form */SUBRESOURCE and covers required.
func coversSubresource(value, required string) bool {
	_, subresource, ok := strings.Cut(required, "/")
	return ok && value == "*/"+subresource
}

// coversBelow reports whether value is a path with a final asterisk and covers required.
func coversBelow(value, required string) bool {
	prefix, ok := strings.CutSuffix(value, "*")
	return ok && strings.HasPrefix(required, prefix)
}
