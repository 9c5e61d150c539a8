package rbac

import (
	rbacv1 "k8s.io/api/rbac/v1"

	"mainstay.dev/mainstay/internal/authorizer"
)

// Rules are compiled rules without a role, for use by other authorizers. They are immutable and
// safe for concurrent use.
type Rules struct{ set *ruleSet }

// NewRules compiles rules. It does not retain policies.
func NewRules(policies []rbacv1.PolicyRule) *Rules {
	return &Rules{newRuleSet(compile(policies))}
}

// Allow reports whether one of the rules allows the request. It ignores a.User.
func (r *Rules) Allow(a *authorizer.Attributes) bool {
	q := prepare(a)
	return r.set.allows(&q)
}

// roleKey identifies a role. The namespace of a ClusterRole is "".
type roleKey struct{ namespace, name string }

func (k roleKey) isCluster() bool { return k.namespace == "" }

// role is the target of bindings. If missing is true, the role does not exist. A binding can be
// created before its role, and can remain after the deletion of its role.
type role struct {
	key     roleKey
	missing bool
	*ruleSet
	// bindings contains the bindings that refer to the role, at their slots. A missing role without bindings is
	// removed.
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

// indexThreshold is the maximum number of rules in a ruleSet without an index.
const indexThreshold = 8

// ruleSet contains compiled rules. It is immutable. A nil *ruleSet has no rules.
type ruleSet struct {
	rules []rule
	// byResource maps each resource in the rules to the indexes of the rules that contain it. It is
	// nil for a small number of rules, which are all evaluated.
	byResource map[string][]uint32
}

// newRuleSet takes ownership of rules.
func newRuleSet(rules []rule) *ruleSet {
	r := &ruleSet{rules: rules}
	if len(rules) <= indexThreshold {
		return r
	}
	r.byResource = map[string][]uint32{}
	for i := range rules {
		for resource := range rules[i].resources.all {
			r.byResource[resource] = append(r.byResource[resource], uint32(i))
		}
	}
	return r
}

// all returns the rules. The caller must not modify them.
func (r *ruleSet) all() []rule {
	if r == nil {
		return nil
	}
	return r.rules
}

func compile(policies []rbacv1.PolicyRule) []rule {
	rules := make([]rule, len(policies))
	for i := range policies {
		rules[i] = ruleOf(&policies[i])
	}
	return rules
}

func (r *ruleSet) allows(q *preparedRequest) bool {
	if r == nil {
		return false
	}
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

func (r *ruleSet) allowsByResource(resource string, q *preparedRequest) bool {
	for _, i := range r.byResource[resource] {
		if r.rules[i].allows(q) {
			return true
		}
	}
	return false
}
