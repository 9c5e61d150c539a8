package host

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"mainstay.dev/mainstay/internal/controlplane"
)

// TestEveryRouteIsGuarded requests every route without credentials, with an invalid token, and as a user
// without permissions. It checks that only those routes are accessible that are also accessible in
// kube-apiserver.
func TestEveryRouteIsGuarded(t *testing.T) {
	t.Parallel()
	s := start(t, Config{Authentication: AuthenticationConfig{TokenFile: TokenFileConfig{File: tokens(t)}}})
	h, err := New(Config{})
	if err != nil {
		t.Fatal(err)
	}
	routes, err := h.Routes()
	if err != nil {
		t.Fatal(err)
	}
	if len(routes) < 700 {
		t.Fatalf("only %d routes", len(routes))
	}
	for _, path := range []string{"/api", "/apis", "/apis/apps/v1", "/openapi/v2", "/openapi/v3", "/.well-known/openid-configuration", "/openid/v1/jwks", "/nope"} {
		routes = append(routes, controlplane.Route{Method: "GET", Path: path})
	}
	step := 1
	if testing.Short() {
		step = 7 // a sample of all groups and verbs
	}
	c := client(t, nil)
	for _, who := range []struct {
		name   string
		header []string
		code   string
		sees   func(*controlplane.Route) bool
	}{
		{"nobody", nil, "403", public},
		{"a token of nobody", []string{"Authorization", "Bearer nope"}, "401", func(*controlplane.Route) bool { return false }},
		{"a user without rights", []string{"Authorization", "Bearer jane"}, "403", func(r *controlplane.Route) bool { return public(r) || inDiscovery(r) || aboutOneself(r) }},
	} {
		seen := 0
		for i := 0; i < len(routes); i += step {
			r := &routes[i]
			code, _, _ := strings.Cut(exchange(t, c, r.Method, s.URL+exampleOf(r.Path), "{}", nil, who.header...), " ")
			if refused := code == who.code; refused == who.sees(r) {
				t.Errorf("%s: %s %s: code %s, want access: %t", who.name, r.Method, r.Path, code, who.sees(r))
			} else if !refused {
				seen++
			}
		}
		t.Logf("%s sees %d of %d routes", who.name, seen, len(routes))
	}
}

// exampleOf returns a path with an example value in place of each variable.
func exampleOf(path string) string {
	return regexp.MustCompile(`\{[^}]*\}`).ReplaceAllString(path, "x")
}

// public reports whether the role system:public-info-viewer permits requests to a route.
func public(r *controlplane.Route) bool {
	return r.Method == "GET" && slices.Contains([]string{"/healthz", "/livez", "/readyz", "/version", "/version/"}, r.Path)
}

// inDiscovery reports whether the role system:discovery permits requests to a route.
func inDiscovery(r *controlplane.Route) bool {
	if r.Method != "GET" || r.Kind != "" {
		return false
	}
	return slices.Contains([]string{"/api", "/apis", "/openapi"}, r.Path) ||
		slices.ContainsFunc([]string{"/api/", "/apis/", "/openapi/"}, func(prefix string) bool { return strings.HasPrefix(r.Path, prefix) })
}

// aboutOneself reports whether the role system:basic-user permits requests to a route.
func aboutOneself(r *controlplane.Route) bool {
	return r.Method == "POST" && (strings.HasSuffix(r.Path, "/selfsubjectaccessreviews") || strings.HasSuffix(r.Path, "/selfsubjectrulesreviews") || strings.HasSuffix(r.Path, "/selfsubjectreviews"))
}
