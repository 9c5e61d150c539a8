package rbac

import (
	"strings"
	"unique"

	rbacv1 "k8s.io/api/rbac/v1"

	"mainstay.dev/mainstay/internal/authorizer"
)

// stringSet contains the strings in one field of a rule, each followed by a NUL. Equal sets share
// memory (package unique), because thousands of roles contain `[""]` and `["get", "list"]`.
type stringSet struct{ handle unique.Handle[string] }

// newStringSet returns the strings of a list, except strings with a NUL, which cannot match a
// request.
func newStringSet(list []string) stringSet {
	var b strings.Builder
	for _, s := range list {
		if strings.IndexByte(s, 0) < 0 {
			b.WriteString(s)
			b.WriteByte(0)
		}
	}
	return stringSet{unique.Make(b.String())}
}

func (w stringSet) empty() bool { return w.handle.Value() == "" }

// all yields the strings.
func (w stringSet) all(yield func(string) bool) {
	for rest := w.handle.Value(); rest != ""; {
		s, after, _ := strings.Cut(rest, "\x00")
		if !yield(s) {
			return
		}
		rest = after
	}
}

// list returns the strings in a new slice, or nil if the set is empty.
func (w stringSet) list() []string {
	var list []string
	for s := range w.all {
		list = append(list, s)
	}
	return list
}

func (w stringSet) has(value string) bool {
	for s := range w.all {
		if s == value {
			return true
		}
	}
	return false
}

// hasOrWildcard reports whether the set contains value or "*".
func (w stringSet) hasOrWildcard(value string) bool {
	for s := range w.all {
		if s == value || s == rbacv1.ResourceAll {
			return true
		}
	}
	return false
}

// rule is a compiled PolicyRule.
type rule struct {
	verbs, groups, resources, names, paths stringSet
}

func ruleOf(policy *rbacv1.PolicyRule) rule {
	r := rule{
		newStringSet(policy.Verbs), newStringSet(policy.APIGroups), newStringSet(policy.Resources),
		newStringSet(policy.ResourceNames), newStringSet(policy.NonResourceURLs),
	}
	if len(policy.ResourceNames) > 0 && r.names.empty() {
		r.verbs = newStringSet(nil) // the rule matches no request; an empty set of names would match all
	}
	return r
}

// policy is the inverse of ruleOf.
func (r *rule) policy() rbacv1.PolicyRule {
	return rbacv1.PolicyRule{
		Verbs: r.verbs.list(), APIGroups: r.groups.list(), Resources: r.resources.list(),
		ResourceNames: r.names.list(), NonResourceURLs: r.paths.list(),
	}
}

// preparedRequest is a request with derived values that are the same for all rules.
type preparedRequest struct {
	*authorizer.Attributes
	// resource is RESOURCE or RESOURCE/SUBRESOURCE. anySubresource is */SUBRESOURCE, or "" if the
	// request has no subresource.
	resource, anySubresource string
}

func prepare(a *authorizer.Attributes) preparedRequest {
	q := preparedRequest{Attributes: a, resource: a.Resource}
	if a.Subresource != "" {
		q.resource, q.anySubresource = a.Resource+"/"+a.Subresource, "*/"+a.Subresource
	}
	return q
}

func (r *rule) allows(q *preparedRequest) bool {
	if !r.verbs.hasOrWildcard(q.Verb) {
		return false
	}
	if !q.ResourceRequest {
		return r.hasPath(q.Path)
	}
	return r.groups.hasOrWildcard(q.APIGroup) && r.hasResource(q) && (r.names.empty() || r.names.has(q.Name))
}

func (r *rule) hasResource(q *preparedRequest) bool {
	for s := range r.resources.all {
		if s == q.resource || s == rbacv1.ResourceAll || q.anySubresource != "" && s == q.anySubresource {
			return true
		}
	}
	return false
}

// hasPath reports whether the rule matches a path. A trailing * in the rule matches any suffix.
func (r *rule) hasPath(path string) bool {
	for s := range r.paths.all {
		if prefix, all := strings.CutSuffix(s, "*"); s == path || all && strings.HasPrefix(path, prefix) {
			return true
		}
	}
	return false
}
