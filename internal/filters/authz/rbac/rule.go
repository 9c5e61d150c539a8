package rbac

import (
	"strings"
	"unique"

	rbacv1 "k8s.io/api/rbac/v1"

	"mainstay.dev/mainstay/internal/authorizer"
)

// words are the strings of a field of a rule, each with a trailing NUL. Equal fields of all rules
// share memory: thousands of roles contain `[""]` and `["get", "list"]`.
type words struct{ handle unique.Handle[string] }

// wordsOf returns the strings of a list, except strings with a NUL, which cannot match a request.
func wordsOf(list []string) words {
	var b strings.Builder
	for _, word := range list {
		if strings.IndexByte(word, 0) < 0 {
			b.WriteString(word)
			b.WriteByte(0)
		}
	}
	return words{unique.Make(b.String())}
}

func (w words) empty() bool { return w.handle.Value() == "" }

// all yields the strings.
func (w words) all(yield func(string) bool) {
	for rest := w.handle.Value(); rest != ""; {
		word, after, _ := strings.Cut(rest, "\x00")
		if !yield(word) {
			return
		}
		rest = after
	}
}

// list returns the strings, or nil if the list is empty.
func (w words) list() []string {
	var list []string
	for word := range w.all {
		list = append(list, word)
	}
	return list
}

func (w words) has(wanted string) bool {
	for word := range w.all {
		if word == wanted {
			return true
		}
	}
	return false
}

// hasOrAll reports whether the strings contain wanted or the wildcard.
func (w words) hasOrAll(wanted string) bool {
	for word := range w.all {
		if word == wanted || word == rbacv1.ResourceAll {
			return true
		}
	}
	return false
}

// rule is a PolicyRule, compiled.
type rule struct {
	verbs, groups, resources, names, paths words
}

func ruleOf(policy *rbacv1.PolicyRule) rule {
	r := rule{
		wordsOf(policy.Verbs), wordsOf(policy.APIGroups), wordsOf(policy.Resources),
		wordsOf(policy.ResourceNames), wordsOf(policy.NonResourceURLs),
	}
	if len(policy.ResourceNames) > 0 && r.names.empty() {
		r.verbs = wordsOf(nil) // an empty list would match all names; this rule matches no request
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

// question is a request, prepared for the evaluation of all rules.
type question struct {
	*authorizer.Attributes
	// resource is RESOURCE or RESOURCE/SUBRESOURCE, anySubresource */SUBRESOURCE, or
	// "" without one.
	resource, anySubresource string
}

func ask(a *authorizer.Attributes) question {
	q := question{Attributes: a, resource: a.Resource}
	if a.Subresource != "" {
		q.resource, q.anySubresource = a.Resource+"/"+a.Subresource, "*/"+a.Subresource
	}
	return q
}

func (r *rule) allows(q *question) bool {
	if !r.verbs.hasOrAll(q.Verb) {
		return false
	}
	if !q.ResourceRequest {
		return r.hasPath(q.Path)
	}
	return r.groups.hasOrAll(q.APIGroup) && r.hasResource(q) && (r.names.empty() || r.names.has(q.Name))
}

func (r *rule) hasResource(q *question) bool {
	for word := range r.resources.all {
		if word == q.resource || word == rbacv1.ResourceAll || q.anySubresource != "" && word == q.anySubresource {
			return true
		}
	}
	return false
}

// hasPath: a path with a trailing * matches its prefix.
func (r *rule) hasPath(path string) bool {
	for word := range r.paths.all {
		if prefix, all := strings.CutSuffix(word, "*"); word == path || all && strings.HasPrefix(path, prefix) {
			return true
		}
	}
	return false
}
