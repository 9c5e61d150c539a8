package rbac

import (
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
)

// maxParts is the maximum number of single permissions into which the rules of a role are split. A
// rule with a thousand verbs, resources and groups each would have 10^9. A larger rule is covered
// only by one rule that covers it completely.
const maxParts = 20_000

// uncovered returns the single permissions in wanted that no rule in held covers, merged by
// resource.
func uncovered(held, wanted []rbacv1.PolicyRule) []rbacv1.PolicyRule {
	left, missing := maxParts, []rbacv1.PolicyRule{}
	for i := range wanted {
		if isCovered(held, &wanted[i]) {
			continue
		}
		n := countParts(&wanted[i], left)
		if n > left {
			missing = append(missing, wanted[i])
			continue
		}
		left -= n
		for part := range parts(&wanted[i]) {
			if !isCovered(held, &part) {
				missing = append(missing, part)
			}
		}
	}
	return merged(missing)
}

// isCovered reports whether a single rule in held covers rule.
func isCovered(held []rbacv1.PolicyRule, rule *rbacv1.PolicyRule) bool {
	return slices.ContainsFunc(held, func(by rbacv1.PolicyRule) bool { return covers(&by, rule) })
}

func covers(by, rule *rbacv1.PolicyRule) bool {
	return hasAll(by.Verbs, rule.Verbs) && hasAll(by.APIGroups, rule.APIGroups) &&
		everyOf(rule.Resources, func(resource string) bool { return hasResource(by.Resources, resource) }) &&
		everyOf(rule.NonResourceURLs, func(path string) bool { return hasPath(by.NonResourceURLs, path) }) &&
		(len(by.ResourceNames) == 0 || len(rule.ResourceNames) > 0 && everyOf(rule.ResourceNames, func(name string) bool { return slices.Contains(by.ResourceNames, name) }))
}

func everyOf(list []string, is func(string) bool) bool {
	return !slices.ContainsFunc(list, func(s string) bool { return !is(s) })
}

// hasAll reports whether has contains all of wanted, or "*".
func hasAll(has, wanted []string) bool {
	return slices.Contains(has, "*") || everyOf(wanted, func(s string) bool { return slices.Contains(has, s) })
}

func hasResource(has []string, resource string) bool {
	if slices.Contains(has, "*") || slices.Contains(has, resource) {
		return true
	}
	_, subresource, isSub := strings.Cut(resource, "/")
	return isSub && slices.Contains(has, "*/"+subresource)
}

func hasPath(has []string, path string) bool {
	return slices.ContainsFunc(has, func(h string) bool {
		prefix, all := strings.CutSuffix(h, "*")
		return h == path || all && strings.HasPrefix(path, prefix)
	})
}

// countParts returns the number of parts of a rule, or a number above limit if there are more.
func countParts(rule *rbacv1.PolicyRule, limit int) int {
	n := 1
	for _, list := range [][]string{rule.APIGroups, rule.Resources, rule.Verbs} {
		if n *= len(list); n > limit {
			return n
		}
	}
	return n*max(1, len(rule.ResourceNames)) + len(rule.NonResourceURLs)*len(rule.Verbs)
}

// parts iterates over the single permissions of a rule: one verb for one resource of one group, or
// for one path.
func parts(rule *rbacv1.PolicyRule) func(func(rbacv1.PolicyRule) bool) {
	return func(yield func(rbacv1.PolicyRule) bool) {
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				for _, name := range namesOf(rule) {
					for _, verb := range rule.Verbs {
						part := rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{resource}, ResourceNames: name, Verbs: []string{verb}}
						if !yield(part) {
							return
						}
					}
				}
			}
		}
		for _, path := range rule.NonResourceURLs {
			for _, verb := range rule.Verbs {
				if !yield(rbacv1.PolicyRule{NonResourceURLs: []string{path}, Verbs: []string{verb}}) {
					return
				}
			}
		}
	}
}

// namesOf returns one list per resource name of a rule, or one empty list if it has no names.
func namesOf(rule *rbacv1.PolicyRule) [][]string {
	if len(rule.ResourceNames) == 0 {
		return [][]string{nil}
	}
	return slices.Collect(slices.Chunk(rule.ResourceNames, 1))
}

// merged combines the verbs of single permissions for the same resource. It does not change rules
// that were not split.
func merged(rules []rbacv1.PolicyRule) []rbacv1.PolicyRule {
	at, seen := map[string]int{}, map[string]bool{}
	var result []rbacv1.PolicyRule
	for _, rule := range rules {
		text := compact(&rule)
		if seen[text] {
			continue
		}
		seen[text] = true
		if len(rule.Verbs) == 1 {
			of := rule
			of.Verbs = nil
			key := compact(&of)
			if i, ok := at[key]; ok {
				result[i].Verbs = append(result[i].Verbs, rule.Verbs[0])
				continue
			}
			at[key], rule.Verbs = len(result), slices.Clone(rule.Verbs)
		}
		result = append(result, rule)
	}
	return result
}

// maxDescribed is the maximum number of rules in an error.
const maxDescribed = 100

// describe formats rules like kube-apiserver.
func describe(rules []rbacv1.PolicyRule) []string {
	texts := make([]string, len(rules))
	for i := range rules {
		texts[i] = compact(&rules[i])
	}
	slices.Sort(texts)
	texts = slices.Compact(texts)
	if more := len(texts) - maxDescribed; more > 0 {
		texts = append(texts[:maxDescribed], fmt.Sprintf("and %d more", more))
	}
	return texts
}

func compact(rule *rbacv1.PolicyRule) string {
	var fields []string
	for _, f := range []struct {
		name string
		list []string
	}{
		{"APIGroups", rule.APIGroups}, {"Resources", rule.Resources}, {"NonResourceURLs", rule.NonResourceURLs},
		{"ResourceNames", rule.ResourceNames}, {"Verbs", rule.Verbs},
	} {
		if len(f.list) > 0 {
			fields = append(fields, fmt.Sprintf("%s:%q", f.name, f.list))
		}
	}
	return "{" + strings.Join(fields, ", ") + "}"
}
