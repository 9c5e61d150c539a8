package rbac

import (
	"cmp"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"

	"mainstay.dev/mainstay/internal/authorizer"
	"mainstay.dev/mainstay/internal/request"
)

// Objects contains all roles and bindings of a cluster.
type Objects struct {
	ClusterRoles        []rbacv1.ClusterRole
	Roles               []rbacv1.Role
	ClusterRoleBindings []rbacv1.ClusterRoleBinding
	RoleBindings        []rbacv1.RoleBinding
}

// NewStatic returns an Authorizer for fixed objects. It retains the subjects and rules only in
// compiled form. Its Followers must not be used.
func NewStatic(objects *Objects) *Authorizer {
	a := New(nil, nil, nil)
	for i := range objects.ClusterRoles {
		r := &objects.ClusterRoles[i]
		a.index.setRole(roleKey{name: r.Name}, r.Rules)
	}
	for i := range objects.Roles {
		r := &objects.Roles[i]
		a.index.setRole(roleKey{r.Namespace, r.Name}, r.Rules)
	}
	for i := range objects.ClusterRoleBindings {
		b := &objects.ClusterRoleBindings[i]
		a.index.setBinding(roleKey{name: b.Name}, b.RoleRef, b.Subjects)
	}
	for i := range objects.RoleBindings {
		b := &objects.RoleBindings[i]
		a.index.setBinding(roleKey{b.Namespace, b.Name}, b.RoleRef, b.Subjects)
	}
	return a
}

// Grant is a rule that a binding grants to a user.
type Grant struct {
	// Binding describes the binding, the role and the subject, with kube-apiserver's message.
	Binding string
	// Namespace is the scope of the grant; "" for all namespaces.
	Namespace string
	Rule      rbacv1.PolicyRule
	// Mismatches are the parts of the request that the rule does not match: verb, path, resource,
	// name or namespace. Mismatches is empty if the rule allows the request.
	Mismatches []string
}

// Explain returns the first grant that allows a request. If no grant allows it, Explain returns up
// to max grants of the user, those with the fewest mismatches first. It omits grants for other
// resources or paths. q.User must not be nil.
func (a *Authorizer) Explain(q *authorizer.Attributes, max int) []Grant {
	prepared := prepare(q)
	var grants []Grant
	a.mu.RLock()
	defer a.mu.RUnlock()
	a.index.allBindings(q.User, func(s subject, b *binding) {
		for _, rule := range b.role.all() {
			mismatches := rule.mismatches(&prepared)
			if b.namespace != "" && b.namespace != q.Namespace {
				mismatches = append(mismatches, "namespace")
			}
			grants = append(grants, Grant{Binding: string(b.describe(nil, s)), Namespace: b.namespace, Rule: rule.policy(), Mismatches: mismatches})
		}
	})
	slices.SortStableFunc(grants, func(a, b Grant) int { return cmp.Compare(len(a.Mismatches), len(b.Mismatches)) })
	// Grants for other resources or paths are not useful.
	grants = slices.DeleteFunc(grants, func(g Grant) bool {
		return slices.Contains(g.Mismatches, "resource") || slices.Contains(g.Mismatches, "path")
	})
	if len(grants) > 0 && len(grants[0].Mismatches) == 0 {
		return grants[:1]
	}
	return grants[:min(max, len(grants))]
}

// allBindings calls f with all bindings of a user in all namespaces. For each subject, it starts with the
// cluster-wide bindings.
func (x *index) allBindings(user *request.User, f func(subject, *binding)) {
	x.eachGrants(user, func(s subject, g *grants) {
		for _, b := range slices.Concat(g.cluster, g.namespaced) {
			f(s, b)
		}
	})
}

// mismatches returns the parts of a request that the rule does not match.
func (r *rule) mismatches(q *preparedRequest) []string {
	var mismatches []string
	need := func(what string, has bool) {
		if !has {
			mismatches = append(mismatches, what)
		}
	}
	need("verb", r.verbs.hasOrWildcard(q.Verb))
	if !q.ResourceRequest {
		need("path", r.hasPath(q.Path))
		return mismatches
	}
	need("resource", r.groups.hasOrWildcard(q.APIGroup) && r.hasResource(q))
	need("name", r.names.empty() || r.names.has(q.Name))
	return mismatches
}
