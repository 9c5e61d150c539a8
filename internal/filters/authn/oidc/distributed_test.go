package oidc

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"mainstay.dev/mainstay/internal/filters/authn/oidc/oidctest"
)

const byGroups = "claimMappings: {username: {claim: sub, prefix: ''}, groups: {claim: groups, prefix: 'oidc:'}}"

// TestDistributedClaims checks that groups are fetched from the claim source that the token
// specifies, and that invalid responses are rejected.
func TestDistributedClaims(t *testing.T) {
	t.Parallel()
	i, other := oidctest.New(t), oidctest.New(t)
	groups := map[string]any{"groups": []string{"a", "b"}}
	i.Sources = map[string]string{
		"/groups":   i.Token(t, groups) + "\n",
		"/one":      i.Token(t, map[string]any{"groups": "a"}),
		"/none":     i.Token(t, nil),
		"/ended":    i.Token(t, map[string]any{"groups": "a", "exp": time.Now().Unix() - 1}),
		"/audience": i.Token(t, map[string]any{"groups": "a", "aud": "x"}),
		"/forged":   other.Token(t, map[string]any{"groups": "a", "iss": i.URL}),
		"/unsafe":   i.Token(t, map[string]any{"groups": "a", "iss": "http://127.0.0.1:1"}),
		"/nonsense": "nonsense",
		"/large":    strings.Repeat("a", maxDocument+1),
	}
	authenticators, err := open(t, i, byGroups)
	if err != nil {
		t.Fatal(err)
	}
	at := func(endpoint string) map[string]any {
		return map[string]any{
			"_claim_names":   map[string]any{"groups": "s"},
			"_claim_sources": map[string]any{"s": map[string]any{"endpoint": endpoint, "access_token": "source"}},
		}
	}
	for _, tt := range []struct {
		name   string
		claims map[string]any
		groups []string
		err    string
	}{
		{"a list", at(i.URL + "/groups"), []string{"oidc:a", "oidc:b"}, ""},
		{"one", at(i.URL + "/one"), []string{"oidc:a"}, ""},
		{"contained in the token itself", map[string]any{"groups": "own", "_claim_names": map[string]any{"groups": "s"}}, []string{"oidc:own"}, ""},
		{"a reference to another claim", map[string]any{"_claim_names": map[string]any{"x": "s"}, "_claim_sources": map[string]any{}}, nil, ""},
		{"aggregated", map[string]any{"_claim_names": map[string]any{"groups": "s"}, "_claim_sources": map[string]any{"s": map[string]any{"JWT": "x"}}}, nil, ""},
		{"missing from the source", at(i.URL + "/none"), nil, `jwt returned by distributed claim endpoint "` + i.URL + `/none" did not contain claim: groups`},
		{"expired", at(i.URL + "/ended"), nil, "verify distributed claim token: oidc: verify token: oidc: token is expired"},
		{"for another audience", at(i.URL + "/audience"), nil, "oidc: expected audience"},
		{"forged", at(i.URL + "/forged"), nil, "failed to verify signature"},
		{"of an issuer without TLS", at(i.URL + "/unsafe"), nil, "verifying untrusted issuer http://127.0.0.1:1 failed: http://127.0.0.1:1 is not an https URL"},
		{"nonsense", at(i.URL + "/nonsense"), nil, "getting untrusted issuer from endpoint"},
		{"too large", at(i.URL + "/large"), nil, "getting untrusted issuer from endpoint"},
		{"an unknown path", at(i.URL + "/x"), nil, `could not expand distributed claims: while getting distributed claim "groups"`},
		{"without TLS", at("http://127.0.0.1:1"), nil, "is not an https URL"},
		{"without a source", map[string]any{"_claim_names": map[string]any{"groups": "s"}}, nil, "oidc: no claim sources"},
		{"of an unknown source", map[string]any{"_claim_names": map[string]any{"groups": "s"}, "_claim_sources": map[string]any{}}, nil, "id token _claim_names contained a source s missing in _claims_sources"},
		{"names of another type", map[string]any{"_claim_names": 1}, nil, "error parsing distributed claim names"},
		{"sources of another type", map[string]any{"_claim_names": map[string]any{}, "_claim_sources": "x"}, nil, "could not parse claim sources"},
	} {
		user, err := authenticators.User(t.Context(), i.Token(t, tt.claims))
		if tt.err != "" {
			if user != nil || err == nil || !strings.Contains(err.Error(), tt.err) {
				t.Errorf("%s: %v, %v, want %q", tt.name, user, err, tt.err)
			}
			continue
		}
		if err != nil || !slices.Equal(user.Groups, tt.groups) {
			t.Errorf("%s: %v, %v, want %q", tt.name, user, err, tt.groups)
		}
	}
}

// TestDistributedClaimsOfMany checks that concurrent requests with the same token receive the
// groups, and that the keys of the issuer are cached only once.
func TestDistributedClaimsOfMany(t *testing.T) {
	t.Parallel()
	i := oidctest.New(t)
	i.Sources = map[string]string{"/groups": i.Token(t, map[string]any{"groups": "a"})}
	authenticators, err := open(t, i, byGroups)
	if err != nil {
		t.Fatal(err)
	}
	token := i.Token(t, map[string]any{
		"_claim_names":   map[string]any{"groups": "s"},
		"_claim_sources": map[string]any{"s": map[string]any{"endpoint": i.URL + "/groups", "access_token": "source"}},
	})
	var callers sync.WaitGroup
	for range 20 {
		callers.Go(func() {
			if user, err := authenticators.User(t.Context(), token); err != nil || !slices.Equal(user.Groups, []string{"oidc:a"}) {
				t.Errorf("user %v, error %v; want the group oidc:a", user, err)
			}
		})
	}
	callers.Wait()
	if n := authenticators.providers[0].groups.issuers.Len(); n != 1 {
		t.Errorf("keys of %d issuers", n)
	}
}
