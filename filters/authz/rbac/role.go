package rbac

import (
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"

	"mainstay.dev/mainstay/authorizer"
)

// Rules are compiled rules that no role holds, for those who decide by some of their own.
type Rules struct{ role role }

// NewRules compiles rules.
func NewRules(policies []rbacv1.PolicyRule) *Rules {
	r := &Rules{}
	r.role.setRules(policies)
	return r
}

// Allow reports whether one of the rules allows what is asked, whoever asks.
func (r *Rules) Allow(a *authorizer.Attributes) bool {
	q := ask(a)
	return r.role.allows(&q)
}

// roleKey names a role; the namespace of a ClusterRole is "".
type roleKey struct{ namespace, name string }

func (k roleKey) isCluster() bool { return k.namespace == "" }

// role is what bindings grant. It may be missing: a binding may come before its
// role, and stay after it.
type role struct {
	key     roleKey
	missing bool
	rules   []rule
	// byResource finds the rules of a large role by the words of their resources;
	// nil: all are looked at.
	byResource map[string][]uint32
	// bindings counts those that name the role. A missing role without any is
	// forgotten.
	bindings int
}

// manyRules is how many rules a role has that gets an index of them.
const manyRules = 8

// setRules replaces the rules.
func (r *role) setRules(policies []rbacv1.PolicyRule) {
	r.missing, r.rules, r.byResource = false, nil, nil
	r.rules = slices.Grow(r.rules, len(policies))
	for i := range policies {
		r.rules = append(r.rules, ruleOf(&policies[i]))
	}
	if len(r.rules) <= manyRules {
		return
	}
	r.byResource = map[string][]uint32{}
	for i := range r.rules {
		for word := range r.rules[i].resources.all {
			r.byResource[word] = append(r.byResource[word], uint32(i))
		}
	}
}

func (r *role) allows(q *question) bool {
	if r.byResource == nil || !q.ResourceRequest {
		for i := range r.rules {
			if r.rules[i].allows(q) {
				return true
			}
		}
		return false
	}
	return r.allowsBy(q.resource, q) || r.allowsBy(rbacv1.ResourceAll, q) || q.anySubresource != "" && r.allowsBy(q.anySubresource, q)
}

func (r *role) allowsBy(word string, q *question) bool {
	for _, i := range r.byResource[word] {
		if r.rules[i].allows(q) {
			return true
		}
	}
	return false
}
