package oidc

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mainstay.dev/mainstay/internal/filters/authn/oidc/oidctest"
)

// TestSignIns checks which providers offer a sign-in.
func TestSignIns(t *testing.T) {
	t.Parallel()
	for token, usable := range map[string]bool{"https://token.example.com/token": true, "": false, "http://token.example.com/token": false, "javascript:x": false} {
		i := oidctest.New(t)
		i.TokenEndpoint = token
		authenticators, err := open(t, i, bySubject)
		if err != nil {
			t.Fatal(err)
		}
		if found := authenticators.SignIns(); found != nil {
			t.Errorf("%q: before the discovery: %v", token, found)
		}
		if err := authenticators.Discover(t.Context()); err != nil {
			t.Errorf("discover the token endpoint %q: %v", token, err)
		}
		var want []SignIn
		if usable {
			want = []SignIn{{Issuer: i.URL, ClientID: "kube", AuthorizationEndpoint: i.URL + "/authorize", TokenEndpoint: token}}
		}
		if diff := cmp.Diff(want, authenticators.SignIns()); diff != "" {
			t.Errorf("%q: (-want +got)\n%s", token, diff)
		}
		i.Down.Store(true)
		if err := authenticators.Discover(t.Context()); err == nil || !strings.Contains(err.Error(), "503") {
			t.Errorf("%q: the error of an unavailable provider is %v", token, err)
		}
		if diff := cmp.Diff(want, authenticators.SignIns()); diff != "" {
			t.Errorf("%q: while the provider is unavailable: (-want +got)\n%s", token, diff)
		}
	}
}

// TestDiscoveryOfTokens checks that a fetch of keys also provides the endpoints, and that a document of another
// issuer is rejected.
func TestDiscoveryOfTokens(t *testing.T) {
	t.Parallel()
	i := oidctest.New(t)
	i.TokenEndpoint = "https://token.example.com/token"
	authenticators, err := open(t, i, "claimMappings: {username: {claim: sub, prefix: ''}}")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := authenticators.User(t.Context(), i.Token(t, nil)); err != nil || len(authenticators.SignIns()) != 1 {
		t.Errorf("sign-ins %v, error %v; want one sign-in", authenticators.SignIns(), err)
	}
	i.DiscoveryIssuer = "https://other"
	if err := authenticators.Discover(t.Context()); err == nil || !strings.Contains(err.Error(), "issuer did not match") {
		t.Errorf("the error is %v", err)
	}
}
