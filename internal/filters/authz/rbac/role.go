package rbac

import (
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"

	"mainstay.dev/mainstay/internal/authorizer"
)

// Rules are compiled rules without a role, for other authorizers. They are immutable and safe for
// concurrent use.
type Rules struct{ role role }

// NewRules compiles rules. It does not retain policies.
func NewRules(policies []rbacv1.PolicyRule) *Rules {
	r := &Rules{}
	r.role.setRules(policies)
	return r
}

// Allow reports whether one of the rules allows the request. It ignores a.User.
func (r *Rules) Allow(a *authorizer.Attributes) bool {
	q := prepare(a)
	return r.role.allows(&q)
}

// roleKey identifies a role. The namespace of a ClusterRole is "".
type roleKey struct{ namespace, name string }

func (k roleKey) isCluster() bool { return k.namespace == "" }

// role is the target of bindings. If missing is true, the role does not exist: a binding can exist
// before and after its role.
type role struct {
	key     roleKey
	missing bool
	rules   []rule
	// byResource maps the resources in rules to the indexes of rules, for roles with many rules. If
	// it is nil, all rules are evaluated.
	byResource map[string][]uint32
	// bindings contains the bindings of the role by slot. A missing role without bindings is removed.
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

// indexThreshold is the maximum number of rules of a role without an index.
const indexThreshold = 8

// setRules replaces the rules, and reports whether they have changed.
func (r *role) setRules(policies []rbacv1.PolicyRule) (changed bool) {
	rules := make([]rule, len(policies))
	for i := range policies {
		rules[i] = ruleOf(&policies[i])
	}
	changed = !slices.Equal(r.rules, rules)
	r.missing, r.rules, r.byResource = false, rules, nil
	if len(r.rules) <= indexThreshold {
		return changed
	}
	r.byResource = map[string][]uint32{}
	for i := range r.rules {
		for resource := range r.rules[i].resources.all {
			r.byResource[resource] = append(r.byResource[resource], uint32(i))
		}
	}
	return changed
}

func (r *role) allows(q *preparedRequest) bool {
	if r.byResource == nil || !q.ResourceRequest {
		for i := range r.rules {
			if r.rules[i].allows(q) {
				return true
			}
		}
		return false
	}
	return r.allowsByResource(q.resource, q) || r.allowsByResource(rbacv1.ResourceAll, q) || q.anySubresource != "" && r.allowsByResource(q.anySubresource, q)
}

func (r *role) allowsByResource(resource string, q *preparedRequest) bool {
	for _, i := range r.byResource[resource] {
		if r.rules[i].allows(q) {
			return true
		}
	}
	return false
}
