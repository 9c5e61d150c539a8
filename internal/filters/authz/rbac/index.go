package rbac

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"

	"mainstay.dev/mainstay/internal/request"
)

// binding grants a role to its subjects, in its namespace or, if the namespace is "", everywhere.
type binding struct {
	*bindingSpec
	role *role
	slot int // index in role.bindings
}

// bindingSpec is the content of a binding. It is immutable and can be shared by the bindings of several
// Authorizers.
type bindingSpec struct {
	namespace, name string
	roleRef         roleKey
	subjects        []subject
}

func (s *bindingSpec) key() roleKey { return roleKey{s.namespace, s.name} }

func newBindingSpec(at roleKey, ref rbacv1.RoleRef, listed []rbacv1.Subject) *bindingSpec {
	s := &bindingSpec{namespace: at.namespace, name: at.name, roleRef: roleKey{name: ref.Name}, subjects: subjectsOf(listed, at.namespace)}
	if ref.Kind == "Role" {
		s.roleRef.namespace = at.namespace
	}
	return s
}

// subject is a user or group to which a binding grants a role. A service account is represented by its user.
type subject struct {
	name    string
	group   bool
	account bool // the subject's kind is ServiceAccount
}

// grants contains the bindings of one subject.
type grants struct {
	// cluster are the ClusterRoleBindings, sorted by name.
	cluster []*binding
	// namespaced are the RoleBindings, sorted by namespace and name.
	namespaced []*binding
}

// index maps subjects to bindings. Callers must synchronize access.
type index struct {
	roles map[roleKey]*role
	// bindings contains all bindings by namespace and name.
	bindings map[roleKey]*binding
	users    map[string]*grants
	groups   map[string]*grants
	shared   *Shared // nil shares nothing
	// sets caches the sets of namespaces for lists and watches of all namespaces; nil disables the cache.
	sets *namespaceSets
}

func newIndex() index {
	return index{roles: map[roleKey]*role{}, bindings: map[roleKey]*binding{}, users: map[string]*grants{}, groups: map[string]*grants{}}
}

func subjectsOf(listed []rbacv1.Subject, namespace string) []subject {
	subjects := make([]subject, 0, len(listed))
	for i := range listed {
		switch s := &listed[i]; s.Kind {
		case rbacv1.UserKind:
			subjects = append(subjects, subject{name: s.Name})
		case rbacv1.GroupKind:
			subjects = append(subjects, subject{name: s.Name, group: true})
		case rbacv1.ServiceAccountKind:
			of := s.Namespace
			if of == "" {
				of = namespace
			}
			if of != "" {
				subjects = append(subjects, subject{name: request.ServiceAccountUser(of, s.Name), account: true})
			}
		}
	}
	return subjects
}

// visit calls f with the cluster-wide bindings of a user, and then with the bindings in namespace, unless
// namespace is "". It stops when f returns false.
func (x *index) visit(user *request.User, namespace string, f func(subject, *binding) bool) {
	for _, at := range [...]string{"", namespace} {
		if !x.users[user.Name].visit(subject{name: user.Name}, at, f) {
			return
		}
		for _, group := range user.Groups {
			if !x.groups[group].visit(subject{name: group, group: true}, at, f) {
				return
			}
		}
		if namespace == "" {
			return
		}
	}
}

// visit calls f with the bindings in a namespace until f returns false. It reports whether f
// returned true for all of them. A nil *grants has no bindings.
func (g *grants) visit(s subject, namespace string, f func(subject, *binding) bool) bool {
	if g == nil {
		return true
	}
	bindings := g.cluster
	if namespace != "" {
		i, _ := g.search(namespace)
		bindings = g.namespaced[i:]
	}
	for _, b := range bindings {
		if b.namespace != namespace {
			return true
		}
		if !f(s, b) {
			return false
		}
	}
	return true
}

// setRole adds or replaces a role.
func (x *index) setRole(key roleKey, policies []rbacv1.PolicyRule) {
	rules := compile(policies)
	key, set := x.shared.role(key, rules)
	r := x.roles[key]
	if r == nil {
		r = &role{key: key}
		x.roles[key] = r
	}
	changed := !slices.Equal(r.ruleSet.all(), rules)
	r.missing, r.ruleSet = false, set
	if changed {
		x.sets.roleChanged(r)
	}
}

func (x *index) removeRole(key roleKey) {
	r := x.roles[key]
	if r == nil {
		return
	}
	*r = role{key: key, missing: true, bindings: r.bindings}
	x.sets.roleChanged(r)
	x.removeIfUnused(r)
}

// eachRole yields the keys of all ClusterRoles if cluster is true, and otherwise of all Roles. It
// omits missing roles.
func (x *index) eachRole(cluster bool, yield func(roleKey) bool) {
	for at, r := range x.roles {
		if at.isCluster() == cluster && !r.missing && !yield(at) {
			return
		}
	}
}

// eachBinding yields the keys of all ClusterRoleBindings if cluster is true, and otherwise of all RoleBindings.
func (x *index) eachBinding(cluster bool, yield func(roleKey) bool) {
	for at := range x.bindings {
		if at.isCluster() == cluster && !yield(at) {
			return
		}
	}
}

// removeIfUnused removes a missing role without bindings.
func (x *index) removeIfUnused(r *role) {
	if r.missing && len(r.bindings) == 0 {
		delete(x.roles, r.key)
	}
}

// setBinding adds or replaces a binding.
func (x *index) setBinding(at roleKey, ref rbacv1.RoleRef, listed []rbacv1.Subject) {
	x.removeBinding(at)
	spec := x.shared.binding(newBindingSpec(at, ref, listed))
	r := x.roles[spec.roleRef]
	if r == nil {
		r = &role{key: spec.roleRef, missing: true}
		x.roles[spec.roleRef] = r
	}
	b := &binding{bindingSpec: spec, role: r}
	r.addBinding(b)
	x.bindings[spec.key()] = b
	for i := range b.subjects {
		x.grantsTo(&b.subjects[i]).add(b)
	}
	x.sets.bindingChanged(b)
}

func (x *index) removeBinding(at roleKey) {
	b := x.bindings[at]
	if b == nil {
		return
	}
	delete(x.bindings, at)
	x.sets.bindingChanged(b)
	b.role.removeBinding(b)
	x.removeIfUnused(b.role)
	for i := range b.subjects {
		s := &b.subjects[i]
		of := x.subjects(s)
		if g := of[s.name]; g != nil && g.remove(b) {
			delete(of, s.name)
		}
	}
}

func (x *index) subjects(s *subject) map[string]*grants {
	if s.group {
		return x.groups
	}
	return x.users
}

func (x *index) grantsTo(s *subject) *grants {
	of := x.subjects(s)
	g := of[s.name]
	if g == nil {
		g = &grants{}
		of[s.name] = g
	}
	return g
}

// add inserts a binding in sorted order, so that authorization reasons do not depend on the order
// of creation.
func (g *grants) add(b *binding) {
	to := &g.cluster
	if b.namespace != "" {
		to = &g.namespaced
	}
	i, _ := slices.BinarySearchFunc(*to, b, func(x, y *binding) int {
		return cmp.Or(strings.Compare(x.namespace, y.namespace), strings.Compare(x.name, y.name))
	})
	*to = slices.Insert(*to, i, b)
}

// search returns the index of the first binding of a namespace in g.namespaced.
func (g *grants) search(namespace string) (int, bool) {
	return slices.BinarySearchFunc(g.namespaced, namespace, func(b *binding, namespace string) int {
		return strings.Compare(b.namespace, namespace)
	})
}

// remove removes all entries of a binding, and reports whether g is now empty.
func (g *grants) remove(b *binding) bool {
	is := func(other *binding) bool { return other == b }
	g.cluster, g.namespaced = slices.DeleteFunc(g.cluster, is), slices.DeleteFunc(g.namespaced, is)
	return len(g.cluster)+len(g.namespaced) == 0
}

// describe appends the description of a grant, with kube-apiserver's message.
func (b *binding) describe(text []byte, s subject) []byte {
	if b.namespace == "" {
		text = strconv.AppendQuote(append(text, "ClusterRoleBinding "...), b.name)
	} else {
		text = strconv.AppendQuote(append(text, "RoleBinding "...), b.name+"/"+b.namespace)
	}
	kind := " of Role "
	if b.role.key.isCluster() {
		kind = " of ClusterRole "
	}
	text = strconv.AppendQuote(append(text, kind...), b.role.key.name)
	switch {
	case s.group:
		return strconv.AppendQuote(append(text, " to Group "...), s.name)
	case slices.Contains(b.subjects, subject{name: s.name, account: true}):
		namespace, name, _ := strings.Cut(strings.TrimPrefix(s.name, request.ServiceAccountPrefix), ":")
		return strconv.AppendQuote(append(text, " to ServiceAccount "...), name+"/"+namespace)
	}
	return strconv.AppendQuote(append(text, " to User "...), s.name)
}
