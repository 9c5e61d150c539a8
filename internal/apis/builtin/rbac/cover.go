package rbac

import (
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/sets"
)

// maxParts is the maximum number of single permissions into which the rules of a role are split. A rule with
// 1000 verbs, 1000 resources and 1000 groups would have 10^9. A rule that exceeds the limit is not split, so it
// is covered only if a single rule covers it completely.
const maxParts = 20_000

// uncovered returns the single permissions in wanted that none of the rules covers, merged by
// resource.
func uncovered(rules, wanted []rbacv1.PolicyRule) []rbacv1.PolicyRule {
	held := make([]heldRule, len(rules))
	for i := range rules {
		held[i] = newHeldRule(&rules[i])
	}
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
func isCovered(held []heldRule, rule *rbacv1.PolicyRule) bool {
	for i := range held {
		if held[i].covers(rule) {
			return true
		}
	}
	return false
}

// heldRule is a rule with sets instead of lists, so that comparing two rules is fast even if both have 100,000
// resources.
type heldRule struct {
	verbs, groups, resources, names, paths sets.Set[string]
	prefixes                               prefixSet // prefixes of the paths that end with "*"
}

func newHeldRule(rule *rbacv1.PolicyRule) heldRule {
	held := heldRule{
		verbs: sets.New(rule.Verbs...), groups: sets.New(rule.APIGroups...), resources: sets.New(rule.Resources...),
		names: sets.New(rule.ResourceNames...), paths: sets.New(rule.NonResourceURLs...),
	}
	for _, path := range rule.NonResourceURLs {
		if prefix, ok := strings.CutSuffix(path, "*"); ok {
			held.prefixes.add(prefix)
		}
	}
	return held
}

func (h *heldRule) covers(rule *rbacv1.PolicyRule) bool {
	return hasAll(h.verbs, rule.Verbs) && hasAll(h.groups, rule.APIGroups) &&
		everyOf(rule.Resources, h.hasResource) && everyOf(rule.NonResourceURLs, h.hasPath) &&
		(len(h.names) == 0 || len(rule.ResourceNames) > 0 && h.names.HasAll(rule.ResourceNames...))
}

func (h *heldRule) hasResource(resource string) bool {
	if h.resources.Has("*") || h.resources.Has(resource) {
		return true
	}
	_, subresource, isSub := strings.Cut(resource, "/")
	return isSub && h.resources.Has("*/"+subresource)
}

func (h *heldRule) hasPath(path string) bool { return h.paths.Has(path) || h.prefixes.match(path) }

func everyOf(list []string, is func(string) bool) bool {
	return !slices.ContainsFunc(list, func(s string) bool { return !is(s) })
}

// hasAll reports whether the set contains all of wanted, or "*".
func hasAll(set sets.Set[string], wanted []string) bool { return set.Has("*") || set.HasAll(wanted...) }

// prefixSet is a set of prefixes. The zero value is empty.
type prefixSet struct {
	prefixes sets.Set[string]
	lengths  []int // lengths of the prefixes, sorted
}

func (s *prefixSet) add(prefix string) {
	if s.prefixes == nil {
		s.prefixes = sets.Set[string]{}
	}
	s.prefixes.Insert(prefix)
	if i, found := slices.BinarySearch(s.lengths, len(prefix)); !found {
		s.lengths = slices.Insert(s.lengths, i, len(prefix))
	}
}

// match reports whether the set contains a prefix of text.
func (s *prefixSet) match(text string) bool {
	for _, n := range s.lengths {
		if n > len(text) {
			return false
		}
		if s.prefixes.Has(text[:n]) {
			return true
		}
	}
	return false
}

// countParts returns the number of single permissions in a rule. If it exceeds limit, the result can be any
// number above limit.
func countParts(rule *rbacv1.PolicyRule, limit int) int {
	n := 1
	for _, list := range [][]string{rule.APIGroups, rule.Resources, rule.Verbs} {
		if n *= len(list); n > limit {
			return n
		}
	}
	return n*max(1, len(rule.ResourceNames)) + len(rule.NonResourceURLs)*len(rule.Verbs)
}

// parts iterates over the single permissions of a rule. A single permission is one verb for one resource of one
// group, or for one path.
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

// namesOf returns one list per resource name of a rule, or one empty list if the rule has no names.
func namesOf(rule *rbacv1.PolicyRule) [][]string {
	if len(rule.ResourceNames) == 0 {
		return [][]string{nil}
	}
	return slices.Collect(slices.Chunk(rule.ResourceNames, 1))
}

// merged removes duplicates and combines single permissions that differ only in the verb. It does not change
// rules that were not split.
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

// describe formats rules as kube-apiserver does.
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
