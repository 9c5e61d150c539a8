package rbac

import (
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"

	"mainstay.dev/mainstay/internal/authorizer"
)

// Rules are compiled rules without a role, for other authorizers.
type Rules struct{ role role }

// NewRules compiles rules.
func NewRules(policies []rbacv1.PolicyRule) *Rules {
	r := &Rules{}
	r.role.setRules(policies)
	return r
}

// Allow reports whether one of the rules allows the request, for any user.
func (r *Rules) Allow(a *authorizer.Attributes) bool {
	q := ask(a)
	return r.role.allows(&q)
}

// roleKey names a role; the namespace of a ClusterRole is "".
type roleKey struct{ namespace, name string }

func (k roleKey) isCluster() bool { return k.namespace == "" }

// role is the target of bindings. It may be missing: a binding can exist before and after its role.
type role struct {
	key     roleKey
	missing bool
	rules   []rule
	// byResource finds the rules of a large role by the words of their resources;
	// nil: all are looked at.
	byResource map[string][]uint32
	// bindings are the bindings of the role by slot. A missing role without bindings is removed.
	bindings []*binding
}

func (r *role) addBinding(b *binding) {
	b.slot = len(r.bindings)
	r.bindings = append(r.bindings, b)
}

func (r *role) removeBinding(b *binding) {
	last := len(r.bindings) - 1
	moved := r.bindings[last]
	r.bindings[b.slot], moved.slot = moved, b.slot
	r.bindings[last] = nil
	r.bindings = r.bindings[:last]
}

// manyRules is how many rules a role has that gets an index of them.
const manyRules = 8

// setRules replaces the rules, and reports whether they are others.
func (r *role) setRules(policies []rbacv1.PolicyRule) (changed bool) {
	rules := make([]rule, len(policies))
	for i := range policies {
		rules[i] = ruleOf(&policies[i])
	}
	changed = !slices.Equal(r.rules, rules)
	r.missing, r.rules, r.byResource = false, rules, nil
	if len(r.rules) <= manyRules {
		return changed
	}
	r.byResource = map[string][]uint32{}
	for i := range r.rules {
		for word := range r.rules[i].resources.all {
			r.byResource[word] = append(r.byResource[word], uint32(i))
		}
	}
	return changed
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
