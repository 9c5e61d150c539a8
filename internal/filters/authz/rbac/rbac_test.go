package rbac

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"

	"mainstay.dev/mainstay/internal/authorizer"
	"mainstay.dev/mainstay/internal/request"
)

func newAuthorizer() *Authorizer { return New(slog.New(slog.DiscardHandler), nil, nil) }

func user(name string, groups ...string) *request.User {
	return &request.User{Name: name, Groups: groups}
}

func TestAuthorize(t *testing.T) {
	t.Parallel()
	a := newAuthorizer()
	x := &a.index
	x.setRole(roleKey{name: "reader"}, []rbacv1.PolicyRule{
		{Verbs: []string{"get", "list"}, APIGroups: []string{""}, Resources: []string{"pods", "pods/log"}},
		{Verbs: []string{"get"}, NonResourceURLs: []string{"/metrics", "/debug/*"}},
	})
	x.setRole(roleKey{"a", "editor"}, []rbacv1.PolicyRule{
		{Verbs: []string{"*"}, APIGroups: []string{"apps"}, Resources: []string{"*"}},
		{Verbs: []string{"update"}, APIGroups: []string{"*"}, Resources: []string{"*/scale"}},
		{Verbs: []string{"update"}, APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{"s"}},
		{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{"a\x00b"}},
	})
	x.setBinding(roleKey{name: "r"}, rbacv1.RoleRef{Kind: "ClusterRole", Name: "reader"}, []rbacv1.Subject{{Kind: "Group", Name: "readers"}, {Kind: "User", Name: "jane"}})
	x.setBinding(roleKey{"a", "e"}, rbacv1.RoleRef{Kind: "Role", Name: "editor"}, []rbacv1.Subject{{Kind: "ServiceAccount", Name: "bot"}, {Kind: "ServiceAccount", Namespace: "b", Name: "bot"}})
	x.setBinding(roleKey{"a", "m"}, rbacv1.RoleRef{Kind: "Role", Name: "missing"}, []rbacv1.Subject{{Kind: "User", Name: "joe"}})
	bot := user("system:serviceaccount:a:bot", "system:serviceaccounts")
	resource := func(u *request.User, verb, group, namespace, name string) authorizer.Attributes {
		resource, sub, _ := strings.Cut(name, "/")
		resource, object, _ := strings.Cut(resource, ":")
		return authorizer.Attributes{User: u, Verb: verb, ResourceRequest: true, APIGroup: group, Namespace: namespace, Resource: resource, Subresource: sub, Name: object}
	}
	path := func(u *request.User, verb, path string) authorizer.Attributes {
		return authorizer.Attributes{User: u, Verb: verb, Path: path}
	}
	for _, tt := range []struct {
		attributes authorizer.Attributes
		want       string // the reason; "" if not allowed
		allowed    bool
	}{
		{resource(user("jane"), "get", "", "", "pods"), `RBAC: allowed by ClusterRoleBinding "r" of ClusterRole "reader" to User "jane"`, true},
		{resource(user("x", "readers"), "list", "", "b", "pods/log"), `RBAC: allowed by ClusterRoleBinding "r" of ClusterRole "reader" to Group "readers"`, true},
		{resource(user("jane"), "get", "", "", "pods/exec"), "", false},
		{resource(user("jane"), "get", "apps", "", "pods"), "", false},
		{resource(user("jane"), "delete", "", "", "pods"), "", false},
		{path(user("jane"), "get", "/metrics"), `RBAC: allowed by ClusterRoleBinding "r" of ClusterRole "reader" to User "jane"`, true},
		{path(user("jane"), "get", "/debug/pprof/heap"), `RBAC: allowed by ClusterRoleBinding "r" of ClusterRole "reader" to User "jane"`, true},
		{path(user("jane"), "get", "/debug"), "", false},
		{path(user("jane"), "post", "/metrics"), "", false},
		{path(bot, "get", "/metrics"), "", false},
		{resource(bot, "delete", "apps", "a", "deployments"), `RBAC: allowed by RoleBinding "e/a" of Role "editor" to ServiceAccount "bot/a"`, true},
		{resource(user("system:serviceaccount:b:bot"), "delete", "apps", "a", "x/y"), `RBAC: allowed by RoleBinding "e/a" of Role "editor" to ServiceAccount "bot/b"`, true},
		{resource(bot, "delete", "apps", "b", "deployments"), "", false},
		{resource(bot, "delete", "apps", "", "deployments"), "", false},
		{resource(bot, "update", "example.com", "a", "things/scale"), `RBAC: allowed by RoleBinding "e/a" of Role "editor" to ServiceAccount "bot/a"`, true},
		{resource(bot, "update", "example.com", "a", "things"), "", false},
		{resource(bot, "update", "", "a", "secrets:s"), `RBAC: allowed by RoleBinding "e/a" of Role "editor" to ServiceAccount "bot/a"`, true},
		{resource(bot, "update", "", "a", "secrets:t"), "", false},
		{resource(bot, "update", "", "a", "secrets"), "", false},
		{resource(bot, "get", "", "a", "secrets:s"), "", false}, // a name with a NUL does not match
		{resource(bot, "get", "", "a", "secrets:a"), "", false},
		{resource(bot, "get", "", "a", "secrets:a\x00b"), "", false},
		{resource(bot, "get", "", "a", "secrets"), "", false},
		{resource(user("joe"), "get", "", "a", "pods"), `RBAC: role.rbac.authorization.k8s.io "missing" not found`, false},
		{resource(user("joe"), "get", "", "b", "pods"), "", false},
		{resource(nil, "get", "", "a", "pods"), "", false},
	} {
		decision, reason, err := a.Authorize(t.Context(), &tt.attributes)
		if err != nil || (decision == authorizer.DecisionAllow) != tt.allowed || reason != tt.want {
			t.Errorf("%+v of %+v: %s %q %v; want %t %q", tt.attributes, tt.attributes.User, decision, reason, err, tt.allowed, tt.want)
		}
	}
}

// reference is a reference implementation that evaluates all roles and bindings one by one.
type reference struct {
	roles    map[roleKey][]rbacv1.PolicyRule
	bindings map[roleKey]rbacv1.RoleBinding
}

func (w *reference) allows(q *authorizer.Attributes) bool {
	for at, b := range w.bindings {
		if at.namespace != "" && at.namespace != q.Namespace {
			continue
		}
		applies := slices.ContainsFunc(b.Subjects, func(s rbacv1.Subject) bool {
			switch s.Kind {
			case "User":
				return s.Name == q.User.Name
			case "Group":
				return slices.Contains(q.User.Groups, s.Name)
			}
			return q.User.Name == "system:serviceaccount:"+s.Namespace+":"+s.Name
		})
		key := roleKey{name: b.RoleRef.Name}
		if b.RoleRef.Kind == "Role" {
			key.namespace = at.namespace
		}
		if applies && slices.ContainsFunc(w.roles[key], func(r rbacv1.PolicyRule) bool { return allowsDirectly(&r, q) }) {
			return true
		}
	}
	return false
}

func allowsDirectly(r *rbacv1.PolicyRule, q *authorizer.Attributes) bool {
	has := func(list []string, words ...string) bool {
		return slices.ContainsFunc(words, func(word string) bool { return word != "" && slices.Contains(list, word) })
	}
	if !has(r.Verbs, q.Verb, "*") {
		return false
	}
	if !q.ResourceRequest {
		return slices.ContainsFunc(r.NonResourceURLs, func(p string) bool {
			return p == q.Path || strings.HasSuffix(p, "*") && strings.HasPrefix(q.Path, strings.TrimSuffix(p, "*"))
		})
	}
	name, any := q.Resource, ""
	if q.Subresource != "" {
		name, any = q.Resource+"/"+q.Subresource, "*/"+q.Subresource
	}
	return (slices.Contains(r.APIGroups, q.APIGroup) || slices.Contains(r.APIGroups, "*")) && has(r.Resources, name, any, "*") &&
		(len(r.ResourceNames) == 0 || slices.Contains(r.ResourceNames, q.Name))
}

// TestModel compares decisions of the index with a direct evaluation during random changes of roles
// and bindings.
func TestModel(t *testing.T) {
	t.Parallel()
	questions := 200_000
	if testing.Short() {
		questions = 20_000
	}
	random := rand.New(rand.NewPCG(1, 2))
	pick := func(from ...string) string { return from[random.IntN(len(from))] }
	some := func(from ...string) []string {
		var list []string
		for range random.IntN(3) + 1 {
			list = append(list, pick(from...))
		}
		return list
	}
	a, w := newAuthorizer(), &reference{map[roleKey][]rbacv1.PolicyRule{}, map[roleKey]rbacv1.RoleBinding{}}
	rules := func() []rbacv1.PolicyRule {
		var list []rbacv1.PolicyRule
		for range random.IntN(12) {
			r := rbacv1.PolicyRule{Verbs: some("get", "list", "update", "*")}
			if random.IntN(5) == 0 {
				r.NonResourceURLs = some("/a", "/a/b", "/a/*", "*")
			} else {
				r.APIGroups, r.Resources = some("", "g", "*"), some("p", "q", "p/s", "*/s", "*", "q/*")
				if random.IntN(3) == 0 {
					r.ResourceNames = some("n", "m")
				}
			}
			list = append(list, r)
		}
		return list
	}
	change := func() {
		at := roleKey{pick("", "x", "y"), pick("1", "2", "3")}
		switch random.IntN(4) {
		case 0:
			w.roles[at] = rules()
			a.index.setRole(at, w.roles[at])
		case 1:
			delete(w.roles, at)
			a.index.removeRole(at)
		case 2:
			b := rbacv1.RoleBinding{RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: pick("1", "2", "3")}}
			if at.namespace != "" {
				b.RoleRef.Kind = pick("Role", "ClusterRole")
			}
			for range random.IntN(4) {
				s := rbacv1.Subject{Kind: pick("User", "Group", "ServiceAccount"), Name: pick("u", "v")}
				if s.Kind == "ServiceAccount" {
					s.Namespace = pick("x", "y")
				}
				b.Subjects = append(b.Subjects, s)
			}
			w.bindings[at] = b
			a.index.setBinding(at, b.RoleRef, b.Subjects)
		case 3:
			delete(w.bindings, at)
			a.index.removeBinding(at)
		}
	}
	allowed := 0
	for n := range questions {
		if n%20 == 0 {
			change()
		}
		q := authorizer.Attributes{User: user(pick("u", "v", "system:serviceaccount:x:u"), some("u", "v", "w")...), Verb: pick("get", "list", "update", "delete")}
		if random.IntN(5) == 0 {
			q.Path = pick("/a", "/a/b", "/c")
		} else {
			q.ResourceRequest, q.APIGroup, q.Namespace = true, pick("", "g", "h"), pick("", "x", "y")
			q.Resource, q.Subresource, q.Name = pick("p", "q", "r"), pick("", "s", "t"), pick("", "n", "o")
		}
		decision, _, _ := a.Authorize(t.Context(), &q)
		want := w.allows(&q)
		if want {
			allowed++
		}
		if (decision == authorizer.DecisionAllow) != want {
			t.Fatalf("question %d, %+v of %+v: %s, want allowed %t", n, q, q.User, decision, want)
		}
	}
	if allowed < questions/20 || allowed > questions*19/20 {
		t.Errorf("%d of %d were allowed; want 5 to 95 percent, so that the test covers both results", allowed, questions)
	}
	for at := range a.index.roles { // after the removal of all roles and bindings, the index must be empty
		a.index.removeRole(at)
	}
	for at := range a.index.bindings {
		a.index.removeBinding(at)
	}
	if x := &a.index; len(x.roles)+len(x.bindings)+len(x.users)+len(x.groups) != 0 {
		t.Errorf("remaining in the index: %v", x)
	}
}

// TestExplain checks the grant that allows a request, and the closest grants of a request that is
// denied.
func TestExplain(t *testing.T) {
	t.Parallel()
	role := func(verbs, resource string, names ...string) []rbacv1.PolicyRule {
		return []rbacv1.PolicyRule{{Verbs: strings.Fields(verbs), APIGroups: []string{""}, Resources: []string{resource}, ResourceNames: names}}
	}
	o := &Objects{
		ClusterRoles: []rbacv1.ClusterRole{{Rules: role("get list", "pods")}}, Roles: []rbacv1.Role{{Rules: role("get", "secrets", "s")}},
		ClusterRoleBindings: []rbacv1.ClusterRoleBinding{{RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: "pods"}, Subjects: []rbacv1.Subject{{Kind: "Group", Name: "devs"}}}},
		RoleBindings:        []rbacv1.RoleBinding{{RoleRef: rbacv1.RoleRef{Kind: "Role", Name: "secret"}, Subjects: []rbacv1.Subject{{Kind: "User", Name: "jane"}}}},
	}
	o.ClusterRoles[0].Name, o.ClusterRoleBindings[0].Name = "pods", "devs"
	o.Roles[0].Name, o.Roles[0].Namespace, o.RoleBindings[0].Name, o.RoleBindings[0].Namespace = "secret", "a", "jane", "a"
	a := NewStatic(o)
	for question, want := range map[string]string{
		"get pods a p":    `ClusterRoleBinding "devs" of ClusterRole "pods" to Group "devs" lacks []`,
		"delete pods a p": `ClusterRoleBinding "devs" of ClusterRole "pods" to Group "devs" lacks [verb]`,
		"get secrets a s": `RoleBinding "jane/a" of Role "secret" to User "jane" lacks []`,
		"get secrets a t": `RoleBinding "jane/a" of Role "secret" to User "jane" lacks [name]`,
		"get secrets b s": `RoleBinding "jane/a" of Role "secret" to User "jane" lacks [namespace]`,
		"get nodes a s":   "",
	} {
		words := strings.Fields(question)
		got := ""
		for _, g := range a.Explain(&authorizer.Attributes{User: user("jane", "devs"), Verb: words[0], ResourceRequest: true, Resource: words[1], Namespace: words[2], Name: words[3]}, 5) {
			got += fmt.Sprintf("%s lacks %v", g.Binding, g.Mismatches)
		}
		if got != want {
			t.Errorf("%s: %s, want %s", question, got, want)
		}
	}
}

// BenchmarkAuthorize measures decisions among 10,000 roles, 10,000 bindings and 100,000 subjects,
// and reports the memory usage of the index.
func BenchmarkAuthorize(b *testing.B) {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	a := newAuthorizer()
	const roles, each = 10_000, 10
	for i := range roles {
		namespace := fmt.Sprintf("n%d", i/10)
		a.index.setRole(roleKey{namespace, fmt.Sprintf("r%d", i)}, []rbacv1.PolicyRule{
			{Verbs: []string{"get", "list", "watch"}, APIGroups: []string{""}, Resources: []string{"pods", "configmaps"}},
			{Verbs: []string{"*"}, APIGroups: []string{fmt.Sprintf("g%d.example.com", i%100)}, Resources: []string{"*"}},
		})
		var subjects []rbacv1.Subject
		for s := range each {
			subjects = append(subjects, rbacv1.Subject{Kind: "User", Name: fmt.Sprintf("u%d", i*each+s)})
		}
		a.index.setBinding(roleKey{namespace, fmt.Sprintf("b%d", i)}, rbacv1.RoleRef{Kind: "Role", Name: fmt.Sprintf("r%d", i)}, subjects)
	}
	a.index.setRole(roleKey{name: "discovery"}, []rbacv1.PolicyRule{{Verbs: []string{"get"}, NonResourceURLs: []string{"/api", "/api/*", "/apis", "/apis/*"}}})
	a.index.setBinding(roleKey{name: "discovery"}, rbacv1.RoleRef{Kind: "ClusterRole", Name: "discovery"}, []rbacv1.Subject{{Kind: "Group", Name: "system:authenticated"}})
	runtime.GC()
	runtime.ReadMemStats(&after)
	for name, q := range map[string]authorizer.Attributes{
		"allowed": {User: user("u54321", "system:authenticated"), Verb: "get", ResourceRequest: true, Namespace: "n543", Resource: "pods", Name: "p"},
		"refused": {User: user("u54321", "system:authenticated"), Verb: "delete", ResourceRequest: true, Namespace: "n543", Resource: "pods", Name: "p"},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if d, _, _ := a.Authorize(b.Context(), &q); (d == authorizer.DecisionAllow) != (name == "allowed") {
					b.Fatal(d)
				}
			}
			b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/(2*roles), "B/rule")
		})
	}
	runtime.KeepAlive(a)
}

// TestShared checks that authorizers share roles and bindings only if they are equal.
func TestShared(t *testing.T) {
	t.Parallel()
	var shared Shared
	key := roleKey{name: "view"}
	rulesOf := func(verbs ...string) *ruleSet {
		x := newIndex()
		x.shared = &shared
		x.setRole(key, []rbacv1.PolicyRule{{Verbs: verbs, APIGroups: []string{""}, Resources: []string{"pods"}}})
		return x.roles[key].ruleSet
	}
	first := rulesOf("get")
	if changed := rulesOf("get", "delete"); changed == first || len(changed.rules) != 1 {
		t.Error("different rules are shared")
	}
	if again := rulesOf("get"); again != first {
		t.Error("equal rules are not shared")
	}
	bindingOf := func(subjects ...rbacv1.Subject) *bindingSpec {
		x := newIndex()
		x.shared = &shared
		x.setBinding(key, rbacv1.RoleRef{Kind: "ClusterRole", Name: "view"}, subjects)
		return x.bindings[key].bindingSpec
	}
	jane := rbacv1.Subject{Kind: rbacv1.UserKind, Name: "jane"}
	binding := bindingOf(jane)
	if changed := bindingOf(jane, jane); changed == binding || len(changed.subjects) != 2 || len(binding.subjects) != 1 {
		t.Error("different bindings are shared")
	}
	if again := bindingOf(jane); again != binding {
		t.Error("equal bindings are not shared")
	}
	for i := range maxShared + 1 {
		shared.role(roleKey{name: fmt.Sprint(i)}, nil)
		shared.binding(&bindingSpec{name: fmt.Sprint(i)})
	}
	if len(shared.roles) != maxShared || len(shared.bindings) != maxShared {
		t.Errorf("%d roles and %d bindings are shared", len(shared.roles), len(shared.bindings))
	}
}
