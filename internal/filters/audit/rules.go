package audit

import (
	"slices"
	"strings"

	"mainstay.dev/mainstay/internal/authorizer"
)

// Rules are a compiled policy. They are immutable and safe for concurrent use.
type Rules struct {
	rules []rule
}

type rule struct {
	PolicyRule
	decision Decision
}

// Decision specifies which data of a request is recorded. OmitStages is shared and must not be modified.
type Decision struct {
	Level             Level
	OmitStages        []Stage
	OmitManagedFields bool
}

// NewRules compiles a policy. The Rules share memory with policy, which must not be modified
// afterwards.
func NewRules(policy *Policy) *Rules {
	r := &Rules{rules: make([]rule, len(policy.Rules))}
	for i, from := range policy.Rules {
		decision := Decision{
			Level: from.Level, OmitStages: slices.Concat(policy.OmitStages, from.OmitStages), OmitManagedFields: policy.OmitManagedFields,
		}
		if from.OmitManagedFields != nil {
			decision.OmitManagedFields = *from.OmitManagedFields
		}
		r.rules[i] = rule{from, decision}
	}
	return r
}

// Decide returns the decision of the first matching rule, or a Decision with LevelNone if no rule matches.
// a.User must be nil if the request was rejected before authentication. Decide does not retain a.
func (r *Rules) Decide(a *authorizer.Attributes) Decision {
	for i := range r.rules {
		if r.rules[i].matches(a) {
			return r.rules[i].decision
		}
	}
	return Decision{Level: LevelNone}
}

// Records reports whether a stage is recorded.
func (d *Decision) Records(stage Stage) bool { return !slices.Contains(d.OmitStages, stage) }

// IncludesRequestBody reports whether request bodies are recorded at level l.
func (l Level) IncludesRequestBody() bool { return l == LevelRequest || l == LevelRequestResponse }

// IncludesResponseBody reports whether response bodies are recorded at level l.
func (l Level) IncludesResponseBody() bool { return l == LevelRequestResponse }

func (r *rule) matches(a *authorizer.Attributes) bool {
	if len(r.Users) > 0 && (a.User == nil || !slices.Contains(r.Users, a.User.Name)) {
		return false
	}
	if len(r.UserGroups) > 0 && (a.User == nil || !slices.ContainsFunc(a.User.Groups, func(g string) bool { return slices.Contains(r.UserGroups, g) })) {
		return false
	}
	if len(r.Verbs) > 0 && !slices.Contains(r.Verbs, a.Verb) {
		return false
	}
	switch {
	case len(r.Namespaces) > 0 || len(r.Resources) > 0:
		return a.ResourceRequest && r.matchesResource(a)
	case len(r.NonResourceURLs) > 0:
		return !a.ResourceRequest && slices.ContainsFunc(r.NonResourceURLs, func(url string) bool { return matchesPath(url, a.Path) })
	}
	return true
}

// matchesPath reports whether a rule matches a path. As in kube-apiserver, all trailing asterisks
// count as one.
func matchesPath(url, path string) bool {
	return url == path || strings.HasSuffix(url, "*") && strings.HasPrefix(path, strings.TrimRight(url, "*"))
}

func (r *rule) matchesResource(a *authorizer.Attributes) bool {
	if len(r.Namespaces) > 0 && !slices.Contains(r.Namespaces, a.Namespace) {
		return false
	}
	return len(r.Resources) == 0 || slices.ContainsFunc(r.Resources, func(g GroupResources) bool { return g.match(a) })
}

func (g *GroupResources) match(a *authorizer.Attributes) bool {
	if g.Group != a.APIGroup && g.Group != "*" {
		return false
	}
	if len(g.Resources) == 0 {
		return true
	}
	if len(g.ResourceNames) > 0 && !slices.Contains(g.ResourceNames, a.Name) {
		return false
	}
	return slices.ContainsFunc(g.Resources, func(name string) bool { return matchesName(name, a.Resource, a.Subresource) })
}

// matchesName reports whether a resource name of a rule matches the resource of a request.
func matchesName(name, resource, subresource string) bool {
	if name == "*" {
		return true
	}
	first, second, nested := strings.Cut(name, "/")
	switch {
	case !nested:
		return subresource == "" && name == resource
	case second == "*" && first == resource:
		return true
	case first == "*":
		return subresource != "" && second == subresource
	}
	return first == resource && second == subresource
}
