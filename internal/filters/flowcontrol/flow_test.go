package flowcontrol

import (
	"hash/maphash"
	"testing"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"

	"mainstay.dev/mainstay/internal/filters/flowcontrol/fairqueue"
	"mainstay.dev/mainstay/internal/request"
)

func TestMatches(t *testing.T) {
	t.Parallel()
	pods := []flowcontrolv1.ResourcePolicyRule{{Verbs: []string{"get", "list"}, APIGroups: []string{""}, Resources: []string{"pods", "pods/status"}, Namespaces: []string{"a"}}}
	leases := []flowcontrolv1.ResourcePolicyRule{{Verbs: []string{"*"}, APIGroups: []string{"*"}, Resources: []string{"*"}, ClusterScope: true}}
	health := []flowcontrolv1.NonResourcePolicyRule{{Verbs: []string{"get"}, NonResourceURLs: []string{"/healthz", "/logs/*", "/livez/"}}}
	tests := []struct {
		name        string
		subject     flowcontrolv1.Subject
		user        request.User
		method, url string
		want        bool
	}{
		{"a user", user("jane"), request.User{Name: "jane"}, "GET", "/api/v1/namespaces/a/pods", true},
		{"another user", user("jane"), request.User{Name: "joe"}, "GET", "/api/v1/namespaces/a/pods", false},
		{"every user", user("*"), request.User{Name: "joe"}, "GET", "/api/v1/namespaces/a/pods", true},
		{"a group", group("g"), request.User{Groups: []string{"f", "g"}}, "GET", "/api/v1/namespaces/a/pods", true},
		{"another group", group("g"), request.User{Groups: []string{"f"}}, "GET", "/api/v1/namespaces/a/pods", false},
		{"every group", group("*"), request.User{}, "GET", "/api/v1/namespaces/a/pods", true},
		{"an account", account("n", "s"), request.User{Name: "system:serviceaccount:n:s"}, "GET", "/api/v1/namespaces/a/pods", true},
		{"an account of another namespace", account("n", "s"), request.User{Name: "system:serviceaccount:nn:s"}, "GET", "/api/v1/namespaces/a/pods", false},
		{"every account", account("n", "*"), request.User{Name: "system:serviceaccount:n:x"}, "GET", "/api/v1/namespaces/a/pods", true},
		{"every account of another namespace", account("n", "*"), request.User{Name: "system:serviceaccount:n2:x"}, "GET", "/api/v1/namespaces/a/pods", false},
		{"a subresource", user("*"), request.User{}, "GET", "/api/v1/namespaces/a/pods/p/status", true},
		{"another subresource", user("*"), request.User{}, "GET", "/api/v1/namespaces/a/pods/p/log", false},
		{"another verb", user("*"), request.User{}, "DELETE", "/api/v1/namespaces/a/pods/p", false},
		{"another group of the API", user("*"), request.User{}, "GET", "/apis/x/v1/namespaces/a/pods", false},
		{"another namespace", user("*"), request.User{}, "GET", "/api/v1/namespaces/b/pods", false},
		{"all namespaces", user("*"), request.User{}, "GET", "/api/v1/pods", true}, // the second rule matches
		{"a path", user("*"), request.User{}, "GET", "/healthz", true},
		{"a path below", user("*"), request.User{}, "GET", "/healthz/etcd", true},
		{"a path with the same beginning", user("*"), request.User{}, "GET", "/healthzz", false},
		{"a path below a pattern", user("*"), request.User{}, "GET", "/logs/a/b", true},
		{"a path below a slash", user("*"), request.User{}, "GET", "/livez/ping", true},
		{"another method", user("*"), request.User{}, "POST", "/healthz", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := newRule(&flowcontrolv1.PolicyRulesWithSubjects{Subjects: []flowcontrolv1.Subject{tt.subject}, ResourceRules: append(pods, leases...), NonResourceRules: health})
			info := request.InfoFrom(requestOf(t, "", tt.method, tt.url).Context())
			if got := r.matches(&tt.user, info); got != tt.want {
				t.Errorf("%v, want %v", got, tt.want)
			}
		})
	}
}

// TestOrder checks that schemas are evaluated by precedence, then by name, that schemas of missing levels are
// ignored, and that the mandatory schemas exist.
func TestOrder(t *testing.T) {
	t.Parallel()
	c := newControl(t, 10, limited("l", 1, 0, nil),
		flowSchema("b", "l", 20, user("jane"), user("joe")), flowSchema("a", "l", 20, user("joe")), flowSchema("c", "l", 10, user("jack")), flowSchema("d", "nope", 5, user("joe")))
	for name, want := range map[string]string{"jane": "b", "joe": "a", "jack": "c", "jill": "catch-all"} {
		r := requestOf(t, name, "GET", "/api/v1/pods")
		f := c.configured().find(request.UserFrom(r.Context()), request.InfoFrom(r.Context()))
		if f.schema != want {
			t.Errorf("%s: %s, want %s", name, f.schema, want)
		}
	}
	nobody := &request.User{Name: "nobody"}
	if f := c.configured().find(nobody, &request.Info{}); f.schema != "catch-all" {
		t.Errorf("a user without groups: %s", f.schema)
	}
	for _, name := range []string{"b", "a", "c"} {
		if _, known := c.activeLevels["l"].flows[name]; !known {
			t.Errorf("the flow of the schema %s does not exist", name)
		}
	}
}

// TestDistinguish checks the flow distinguishers of requests.
func TestDistinguish(t *testing.T) {
	t.Parallel()
	seed := maphash.MakeSeed()
	l := newLevel("l", &fairqueue.Bounds{})
	l.configure(limited("l", 1, 0, queuing(8, 2)))
	s := flowSchema("s", "l", 1)
	info := &request.Info{Namespace: "ns"}
	byUser := newFlow(s, l)
	s.Spec.DistinguisherMethod.Type = flowcontrolv1.FlowDistinguisherMethodByNamespaceType
	byNamespace := newFlow(s, l)
	s.Spec.DistinguisherMethod = nil
	one := newFlow(s, l)
	jane, joe := &request.User{Name: "jane"}, &request.User{Name: "joe"}
	if byUser.distinguish(jane, info) != "jane" || byNamespace.distinguish(jane, info) != "ns" || one.distinguish(jane, info) != "" {
		t.Error("the distinguishers are not the user name, the namespace and the empty string")
	}
	if byUser.hash(seed, byUser.distinguish(jane, info)) == byUser.hash(seed, byUser.distinguish(joe, info)) {
		t.Error("the flows of two users have the same hash")
	}
	if first, again := byUser.hash(seed, "x"), byUser.hash(seed, "x"); first != again || first == byUser.hash(maphash.MakeSeed(), "x") {
		t.Error("the hash is not constant for a seed, or does not depend on the seed")
	}
	l.configure(limited("l", 1, 0, queuing(1, 1)))
	if f := newFlow(flowSchema("s", "l", 1), l); f.distinguish(jane, info) != "" {
		t.Error("requests are distinguished although the level has a single queue")
	}
}
