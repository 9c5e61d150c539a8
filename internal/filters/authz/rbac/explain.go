package rbac

import (
	"cmp"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"

	"mainstay.dev/mainstay/internal/authorizer"
	"mainstay.dev/mainstay/internal/request"
)

// Objects are all roles and bindings of a cluster.
type Objects struct {
	ClusterRoles        []rbacv1.ClusterRole
	Roles               []rbacv1.Role
	ClusterRoleBindings []rbacv1.ClusterRoleBinding
	RoleBindings        []rbacv1.RoleBinding
}

// Of returns an Authorizer for fixed objects.
func Of(objects *Objects) *Authorizer {
	a := New(nil, nil)
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

// Grant is a rule that a user has by a binding.
type Grant struct {
	// Binding describes the binding, its role and subject, with kube-apiserver's message.
	Binding string
	// Namespace is the scope of the grant; "" for all namespaces.
	Namespace string
	Rule      rbacv1.PolicyRule
	// Lacks are the parts of the request that the rule does not match; empty if it allows the
	// request.
	Lacks []string
}

// Explain returns the first grant that allows a request. If no grant allows it, Explain returns up
// to most of the user's closest grants.
func (a *Authorizer) Explain(q *authorizer.Attributes, most int) []Grant {
	asked := ask(q)
	var near []Grant
	a.mu.RLock()
	defer a.mu.RUnlock()
	a.index.everywhere(q.User, func(s subject, b *binding) {
		for i := range b.role.rules {
			lacks := b.role.rules[i].lacks(&asked)
			if b.namespace != "" && b.namespace != q.Namespace {
				lacks = append(lacks, "namespace")
			}
			near = append(near, Grant{Binding: string(b.describe(nil, s)), Namespace: b.namespace, Rule: b.role.rules[i].policy(), Lacks: lacks})
		}
	})
	slices.SortStableFunc(near, func(a, b Grant) int { return cmp.Compare(len(a.Lacks), len(b.Lacks)) })
	// A different kind of request is not close.
	near = slices.DeleteFunc(near, func(g Grant) bool { return slices.Contains(g.Lacks, "resource") || slices.Contains(g.Lacks, "path") })
	if len(near) > 0 && len(near[0].Lacks) == 0 {
		return near[:1]
	}
	return near[:min(most, len(near))]
}

// everywhere calls f with all bindings of a user, cluster-wide ones first, regardless of
// namespaces.
func (x *index) everywhere(user *request.User, f func(subject, *binding)) {
	x.grants(user, func(s subject, g *grants) {
		for _, b := range slices.Concat(g.cluster, g.namespaced) {
			f(s, b)
		}
	})
}

// lacks returns the parts of a request that a rule does not match; empty if it allows the request.
func (r *rule) lacks(q *question) []string {
	var lacks []string
	need := func(what string, has bool) {
		if !has {
			lacks = append(lacks, what)
		}
	}
	need("verb", r.verbs.hasOrAll(q.Verb))
	if !q.ResourceRequest {
		need("path", r.hasPath(q.Path))
		return lacks
	}
	need("resource", r.groups.hasOrAll(q.APIGroup) && r.hasResource(q))
	need("name", r.names.empty() || r.names.has(q.Name))
	return lacks
}
