package flowcontrol

import (
	"hash/maphash"
	"slices"
	"strings"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"

	"mainstay.dev/mainstay/internal/filters/flowcontrol/fairqueue"
	"mainstay.dev/mainstay/internal/request"
)

// flow contains a schema and its level in the form required for matching and queuing requests. The
// queues treat requests of the schema with different distinguishers as separate flows. A flow is
// immutable, except for its counters.
type flow struct {
	schema string
	// schemaUID and levelUID are header values. All responses share the slices.
	schemaUID, levelUID []string
	level               *level
	exempt, queues      bool
	distinguisher       flowcontrolv1.FlowDistinguisherMethodType // "" means a single flow
	maxSeats            int
	rules               []rule
	counters            *fairqueue.Flow
	metrics             *flowMetrics
}

func newFlow(schema *flowcontrolv1.FlowSchema, l *level) *flow {
	f := &flow{
		schema: schema.Name, schemaUID: []string{string(schema.UID)}, levelUID: l.uid, level: l, exempt: l.exempt, maxSeats: l.maxSeats(),
		queues: l.queues > 0,
	}
	if method := schema.Spec.DistinguisherMethod; method != nil && l.queues > 1 {
		f.distinguisher = method.Type
	}
	for i := range schema.Spec.Rules {
		f.rules = append(f.rules, newRule(&schema.Spec.Rules[i]))
	}
	return f
}

// distinguish returns the flow distinguisher of a request.
func (f *flow) distinguish(user *request.User, info *request.Info) string {
	switch f.distinguisher {
	case flowcontrolv1.FlowDistinguisherMethodByUserType:
		return user.Name
	case flowcontrolv1.FlowDistinguisherMethodByNamespaceType:
		return info.Namespace
	}
	return ""
}

// hash returns the hash that selects the queues of a flow.
func (f *flow) hash(seed maphash.Seed, distinguisher string) uint64 {
	var h maphash.Hash
	h.SetSeed(seed)
	_, _ = h.WriteString(f.schema) // never fails
	_ = h.WriteByte(0)
	_, _ = h.WriteString(distinguisher)
	return h.Sum64()
}

func (f *flow) matches(user *request.User, info *request.Info) bool {
	for i := range f.rules {
		if f.rules[i].matches(user, info) {
			return true
		}
	}
	return false
}

// rule is a PolicyRulesWithSubjects with separate lists for the kinds of subjects.
type rule struct {
	everyone      bool
	users, groups []string
	// accountPrefixes are prefixes of user names. Each matches all service accounts of one
	// namespace.
	accountPrefixes []string
	resources       []flowcontrolv1.ResourcePolicyRule
	nonResources    []flowcontrolv1.NonResourcePolicyRule
}

func newRule(of *flowcontrolv1.PolicyRulesWithSubjects) rule {
	r := rule{resources: of.ResourceRules, nonResources: of.NonResourceRules}
	for i := range of.Subjects {
		r.add(&of.Subjects[i])
	}
	return r
}

func (r *rule) add(subject *flowcontrolv1.Subject) {
	switch {
	case subject.Kind == flowcontrolv1.SubjectKindUser && subject.User != nil:
		r.users = append(r.users, subject.User.Name)
		r.everyone = r.everyone || subject.User.Name == flowcontrolv1.NameAll
	case subject.Kind == flowcontrolv1.SubjectKindGroup && subject.Group != nil:
		r.groups = append(r.groups, subject.Group.Name)
		r.everyone = r.everyone || subject.Group.Name == flowcontrolv1.NameAll
	case subject.Kind == flowcontrolv1.SubjectKindServiceAccount && subject.ServiceAccount != nil:
		prefix := request.ServiceAccountPrefix + subject.ServiceAccount.Namespace + ":"
		if subject.ServiceAccount.Name == flowcontrolv1.NameAll {
			r.accountPrefixes = append(r.accountPrefixes, prefix)
		} else {
			r.users = append(r.users, prefix+subject.ServiceAccount.Name)
		}
	}
}

func (r *rule) matches(user *request.User, info *request.Info) bool {
	if !r.matchesSubject(user) {
		return false
	}
	if info.IsResource {
		return slices.ContainsFunc(r.resources, func(of flowcontrolv1.ResourcePolicyRule) bool { return matchesResource(&of, info) })
	}
	return slices.ContainsFunc(r.nonResources, func(of flowcontrolv1.NonResourcePolicyRule) bool {
		return has(of.Verbs, info.Verb) && slices.ContainsFunc(of.NonResourceURLs, func(url string) bool { return matchesPath(url, info.Path) })
	})
}

func (r *rule) matchesSubject(user *request.User) bool {
	if r.everyone || slices.Contains(r.users, user.Name) {
		return true
	}
	for _, group := range r.groups {
		if slices.Contains(user.Groups, group) {
			return true
		}
	}
	return slices.ContainsFunc(r.accountPrefixes, func(prefix string) bool { return strings.HasPrefix(user.Name, prefix) })
}

func matchesResource(r *flowcontrolv1.ResourcePolicyRule, info *request.Info) bool {
	if !has(r.Verbs, info.Verb) || !has(r.APIGroups, info.Group) || !hasResource(r.Resources, info.Resource, info.Subresource) {
		return false
	}
	if info.Namespace == "" {
		return r.ClusterScope
	}
	return has(r.Namespaces, info.Namespace)
}

// has reports whether a list contains value or consists of the wildcard.
func has(list []string, value string) bool {
	return len(list) == 1 && list[0] == "*" || slices.Contains(list, value)
}

// hasResource reports whether a list contains RESOURCE (or RESOURCE/SUBRESOURCE, for a subresource)
// or consists of the wildcard.
func hasResource(list []string, resource, subresource string) bool {
	if subresource == "" || len(list) == 1 && list[0] == "*" {
		return has(list, resource)
	}
	return slices.ContainsFunc(list, func(name string) bool {
		before, after, _ := strings.Cut(name, "/")
		return before == resource && after == subresource
	})
}

// matchesPath reports whether a rule matches a path, which is the case if url is the path, a parent
// of the path, or the wildcard.
func matchesPath(url, path string) bool {
	if url == flowcontrolv1.NonResourceAll || url == path {
		return true
	}
	parent := strings.TrimSuffix(strings.TrimSuffix(url, "*"), "/")
	rest, under := strings.CutPrefix(path, parent)
	return under && strings.HasPrefix(rest, "/")
}
