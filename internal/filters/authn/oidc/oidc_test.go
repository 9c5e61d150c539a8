package oidc

import (
	"context"
	"crypto"
	"encoding/json"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/google/go-cmp/cmp"

	"mainstay.dev/mainstay/internal/filters/authn/oidc/oidctest"
	"mainstay.dev/mainstay/internal/request"
)

// open returns Authenticators for a provider with the given YAML below "jwt:". If the YAML contains
// no issuer, open uses i.
func open(t testing.TB, i *oidctest.Issuer, mapping string) (*Authenticators, error) {
	t.Helper()
	c, err := ParseConfiguration([]byte("apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\njwt:\n- " + strings.ReplaceAll(strings.TrimSpace(mapping), "\n", "\n  ")))
	if err != nil {
		return nil, err
	}
	if c.JWT[0].Issuer.URL == "" {
		c.JWT[0].Issuer = Issuer{URL: i.URL, CertificateAuthority: i.CA(), Audiences: []string{"kube", "other"}, AudienceMatchPolicy: "MatchAny"}
	}
	return New(Config{Configuration: c, Disallowed: []string{"https://own"}, Logger: slog.New(slog.DiscardHandler)})
}

const bySubject = "claimMappings: {username: {claim: sub, prefix: 'oidc:'}, groups: {claim: groups, prefix: 'oidc:'}, uid: {claim: uid}}"

const byExpressions = `claimMappings:
  username: {expression: "claims.sub + ':cel'"}
  groups: {expression: "claims.roles.split(',')"}
  uid: {expression: "string(claims.number)"}
  extra:
  - {key: example.com/team, valueExpression: "claims.?team.orValue('')"}
  - {key: example.com/list, valueExpression: "claims.?list.orValue([])"}
claimValidationRules:
- {expression: "claims.exp - claims.iat <= 7200", message: too long}
- {claim: tenant, requiredValue: t1}
userValidationRules:
- {expression: "!user.username.startsWith('system:')", message: reserved}
- {expression: "user.groups.all(g, !g.startsWith('system:'))"}`

func TestUser(t *testing.T) {
	t.Parallel()
	i := oidctest.New(t)
	soon := time.Now().Unix()
	fits := func(more map[string]any) map[string]any {
		claims := map[string]any{"roles": "a,b", "number": 7, "iat": soon, "tenant": "t1"}
		maps.Copy(claims, more)
		return claims
	}
	byEmail := strings.Replace(bySubject, "claim: sub", "claim: email", 1)
	tests := []struct {
		name, mapping string
		claims        map[string]any
		want          *request.User
		err           string
	}{
		{"by claims", bySubject, map[string]any{"groups": []string{"a", "b"}, "uid": "u", "aud": []string{"x", "other"}},
			&request.User{Name: "oidc:jane", UID: "u", Groups: []string{"oidc:a", "oidc:b"}}, ""},
		{"one group", bySubject, map[string]any{"groups": "a", "uid": "u"}, &request.User{Name: "oidc:jane", UID: "u", Groups: []string{"oidc:a"}}, ""},
		{"with an ID", bySubject, map[string]any{"jti": "7c", "uid": "u"}, &request.User{
			Name: "oidc:jane", UID: "u", Extra: map[string][]string{"authentication.kubernetes.io/credential-id": {"JTI=7c"}}}, ""},
		{"with an ID of another type", bySubject, map[string]any{"jti": 7, "uid": "u"}, &request.User{Name: "oidc:jane", UID: "u"}, ""},
		{"groups of another type", bySubject, map[string]any{"groups": 7, "uid": "u"}, nil, "oidc: parse groups claim"},
		{"without a UID", bySubject, nil, nil, `parse uid claims "uid": claim not present`},
		{"without a name", bySubject, map[string]any{"sub": nil, "uid": "u"}, nil, `parse username claims "sub": claim not present`},
		{"an empty name", bySubject, map[string]any{"sub": "", "uid": "u"}, nil, "is empty"},
		{"for another audience", bySubject, map[string]any{"aud": "x"}, nil, `oidc: expected audience in ["kube" "other"] got ["x"]`},
		{"for no audience", bySubject, map[string]any{"aud": nil}, nil, "oidc: expected audience"},
		{"expired", bySubject, map[string]any{"exp": soon - 1}, nil, "oidc: token is expired"},
		{"without an expiration", bySubject, map[string]any{"exp": nil}, nil, "oidc: token is expired"},
		{"with an expiration that is out of range", bySubject, map[string]any{"exp": 1e300}, nil, "oidc: token is expired"},
		{"not valid yet", bySubject, map[string]any{"nbf": soon + 600}, nil, "before the nbf (not before) time"},
		{"with a text in nbf", bySubject, map[string]any{"nbf": "2999-01-01T00:00:00Z", "uid": "u"}, nil, "parse claim nbf"},
		{"with a time in nbf that is out of range", bySubject, map[string]any{"nbf": 1e300, "uid": "u"}, nil, "parse claim nbf"},
		{"an email", byEmail, map[string]any{"email": "j@x", "email_verified": true, "uid": "u"}, &request.User{Name: "oidc:j@x", UID: "u"}, ""},
		{"an email without email_verified", byEmail, map[string]any{"email": "j@x", "uid": "u"}, &request.User{Name: "oidc:j@x", UID: "u"}, ""},
		{"an email that is not verified", byEmail, map[string]any{"email": "j@x", "email_verified": false, "uid": "u"}, nil, "oidc: email not verified"},
		{"an email with a string in email_verified", byEmail, map[string]any{"email": "j@x", "email_verified": "true", "uid": "u"}, nil, "oidc: email not verified"},
		{"by expressions", byExpressions, fits(map[string]any{"team": "red", "list": []string{"x", "y"}}), &request.User{
			Name: "jane:cel", UID: "7", Groups: []string{"a", "b"},
			Extra: map[string][]string{"example.com/team": {"red"}, "example.com/list": {"x", "y"}}}, ""},
		{"without extra", byExpressions, fits(nil), &request.User{Name: "jane:cel", UID: "7", Groups: []string{"a", "b"}}, ""},
		{"violating a claim rule", byExpressions, fits(map[string]any{"iat": soon - 7200}), nil, "validation expression 'claims.exp - claims.iat <= 7200' failed: too long"},
		{"without a claim that a rule reads", byExpressions, fits(map[string]any{"iat": nil}), nil, "no such key: iat"},
		{"without a required claim", byExpressions, fits(map[string]any{"tenant": nil}), nil, "oidc: required claim tenant not present in ID token"},
		{"with another value of a required claim", byExpressions, fits(map[string]any{"tenant": "t2"}), nil, "oidc: required claim tenant value does not match. Got = t2, want = t1"},
		{"violating a user rule", byExpressions, fits(map[string]any{"sub": "system:x"}), nil, "validation expression '!user.username.startsWith('system:')' failed: reserved"},
		{"with a reserved group", byExpressions, fits(map[string]any{"roles": "system:masters"}), nil, "failed"},
		{"roles that are a list", byExpressions, fits(map[string]any{"roles": []string{"a"}}), nil, "error evaluating group claim expression"},
	}
	for _, tt := range tests {
		authenticators, err := open(t, i, tt.mapping)
		if err != nil {
			t.Fatal(err)
		}
		user, err := authenticators.User(t.Context(), i.Token(t, tt.claims))
		if diff := cmp.Diff(tt.want, user); diff != "" || (err != nil) != (tt.err != "") || err != nil && !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%s: %v, want %q (-want +got):\n%s", tt.name, err, tt.err, diff)
		}
	}
}

// TestIssuer checks that the issuer of Google's tokens is accepted without a scheme.
func TestIssuer(t *testing.T) {
	t.Parallel()
	i := oidctest.New(t)
	for claimed, want := range map[string]string{
		"accounts.google.com": "https://accounts.google.com", "https://accounts.google.com": "https://accounts.google.com", "accounts.example.com": "accounts.example.com",
	} {
		if _, got, err := parseIssued(i.Token(t, map[string]any{"iss": claimed})); got != want || err != nil {
			t.Errorf("%s: %s, %v; want %s", claimed, got, err, want)
		}
	}
}

// TestForged checks that tokens not signed by the provider are rejected.
func TestForged(t *testing.T) {
	t.Parallel()
	i, other := oidctest.New(t), oidctest.New(t)
	authenticators, err := open(t, i, bySubject)
	if err != nil {
		t.Fatal(err)
	}
	good := i.Token(t, map[string]any{"uid": "u"})
	parts := strings.Split(good, ".")
	public, err := json.Marshal(i.Key.Load().Public())
	if err != nil {
		t.Fatal(err)
	}
	claims := map[string]any{"iss": i.URL, "aud": "kube", "sub": "root", "uid": "u", "exp": time.Now().Add(time.Hour).Unix()}
	for name, tt := range map[string]struct {
		token string
		err   bool // false means that other authenticators process the token
	}{
		"another key":              {other.Token(t, map[string]any{"iss": i.URL, "uid": "u"}), true},
		"no signature":             {parts[0] + "." + parts[1] + ".", true},
		"no algorithm":             {"eyJhbGciOiJub25lIn0." + parts[1] + ".", false},
		"a symmetric key":          {oidctest.Sign(t, jose.HS256, public, claims), false},
		"another issuer":           {other.Token(t, nil), false},
		"no token":                 {"nonsense", false},
		"a claim in capitals":      {i.Token(t, map[string]any{"iss": nil, "ISS": i.URL}), false},
		"keys in the token itself": {embedded(t, other.Key.Load(), claims), true},
	} {
		user, err := authenticators.User(t.Context(), tt.token)
		if user != nil || (err != nil) != tt.err {
			t.Errorf("%s: user %v, error %v; want no user, an error: %t", name, user, err, tt.err)
		}
	}
	if user, err := authenticators.User(t.Context(), good); user == nil {
		t.Error(err)
	}
}

// embedded returns a token signed with a key that is embedded in its header.
func embedded(t *testing.T, key *jose.JSONWebKey, claims map[string]any) string {
	t.Helper()
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: key.Key.(crypto.Signer)}, &jose.SignerOptions{EmbedJWK: true})
	if err != nil {
		t.Fatal(err)
	}
	payload, _ := json.Marshal(claims)
	signed, err := signer.Sign(payload)
	if err != nil {
		t.Fatal(err)
	}
	token, err := signed.CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// TestKeys checks that keys are fetched for the first token and again for an unknown key. Invalid
// tokens must not cause repeated fetches.
func TestKeys(t *testing.T) {
	t.Parallel()
	i := oidctest.New(t)
	authenticators, err := open(t, i, bySubject)
	if err != nil {
		t.Fatal(err)
	}
	keys := authenticators.providers[0].keys
	user := func() error {
		_, err := authenticators.User(t.Context(), i.Token(t, map[string]any{"uid": "u"}))
		return err
	}
	i.Down.Store(true)
	if err := user(); err == nil || !strings.Contains(err.Error(), "oidc: authenticator not initialized") {
		t.Errorf("user while the issuer is unavailable: error %v", err)
	}
	i.Down.Store(false)
	fetches := i.Fetches.Load()
	if err := user(); err == nil || i.Fetches.Load() != fetches {
		t.Errorf("repeated without a pause: %v", err)
	}
	later := func() { // makes the last fetch appear old
		last := *keys.fetched.Load()
		last.at = last.at.Add(-minRefetchInterval)
		keys.fetched.Store(&last)
	}
	later()
	if err := user(); err != nil {
		t.Error(err)
	}
	i.Rotate(t, "2")
	if user() == nil {
		t.Error("a token that is signed with an unknown key was accepted")
	}
	later()
	if err := user(); err != nil {
		t.Error(err)
	}
	later()
	i.Down.Store(true)
	if err := user(); err != nil {
		t.Errorf("while the provider is down: %v", err)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	i.Rotate(t, "3")
	if _, err := authenticators.User(gone, i.Token(t, nil)); err == nil {
		t.Error("a canceled request was authenticated")
	}
}

func TestIssuerOfDiscovery(t *testing.T) {
	t.Parallel()
	i := oidctest.New(t)
	i.DiscoveryIssuer = "https://other"
	authenticators, err := open(t, i, bySubject)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := authenticators.User(t.Context(), i.Token(t, nil)); err == nil || !strings.Contains(err.Error(), "issuer did not match the issuer returned by provider") {
		t.Errorf("user of an issuer with another name in its document: error %v", err)
	}
}

// TestConfigurations checks that invalid configurations are rejected with an error for the invalid
// field.
func TestConfigurations(t *testing.T) {
	t.Parallel()
	i := oidctest.New(t)
	named := "claimMappings: {username: {claim: sub, prefix: ''}}"
	tests := map[string]string{
		"issuer: {url: https://own, audiences: [a]}\n" + named:                                                              "URL must not overlap with disallowed issuers",
		"issuer: {url: 'http://x', audiences: [a]}\n" + named:                                                               "URL scheme must be https",
		"issuer: {url: 'https://u:p@x?a#b', audiences: [a]}\n" + named:                                                      "URL must not contain a query",
		"issuer: {url: https://x}\n" + named:                                                                                "at least one jwt[0].issuer.audiences is required",
		"issuer: {url: https://x, audiences: [a, b]}\n" + named:                                                             "audienceMatchPolicy must be MatchAny for multiple audiences",
		"issuer: {url: https://x, audiences: [a, a], audienceMatchPolicy: MatchAny}\n" + named:                              "jwt[0].issuer.audiences[1]: Duplicate value",
		"issuer: {url: https://x, audiences: [a], discoveryURL: 'https://x/'}\n" + named:                                    "discoveryURL must be different from URL",
		"issuer: {url: https://x, audiences: [a], certificateAuthority: nonsense}\n" + named:                                `jwt[0].issuer.certificateAuthority: Invalid value: "<omitted>": data does not contain any valid RSA or ECDSA certificates`,
		"issuer: {url: https://x, audiences: [a], egressSelectorType: etcd}\n" + named:                                      "egress selector must be either controlplane or cluster",
		"claimMappings: {username: {claim: sub}}":                                                                           "claimMappings.username.prefix: Required value",
		"claimMappings: {username: {}}":                                                                                     "claim or expression is required",
		"claimMappings: {username: {claim: sub, expression: claims.sub}}":                                                   "claim and expression can't both be set",
		"claimMappings: {username: {expression: 'claims.sub +'}}":                                                           "compilation failed",
		"claimMappings: {username: {expression: '" + strings.Repeat("[", 200) + "claims" + strings.Repeat("]", 200) + "'}}": "nested too deeply",
		"claimMappings: {username: {expression: '1'}}":                                                                      "must evaluate to one of",
		"claimMappings: {username: {expression: 'user.username'}}":                                                          "undeclared reference",
		"claimMappings: {username: {expression: 'claims.email'}}":                                                           "claims.email_verified must be used",
		"claimMappings: {username: {expression: 'claims[\"email\"]'}}":                                                      "claims.email_verified must be used",
		named + "\nclaimValidationRules: [{claim: a, message: m}]":                                                          "claimValidationRules[0].message: Invalid value: \"m\": may not be specified when claim is set",
		named + "\nclaimValidationRules: [{claim: a}, {claim: a}]":                                                          "claimValidationRules[1].claim: Duplicate value",
		named + "\nuserValidationRules: [{expression: 'user.username'}, {expression: ''}, {expression: 'user.username'}]":   "userValidationRules[2].expression: Duplicate value",
		"claimMappings: {username: {claim: sub, prefix: ''}, extra: [{key: kubernetes.io/a, valueExpression: \"''\"}]}":     "reserved for Kubernetes use",
		"claimMappings: {username: {claim: sub, prefix: ''}, extra: [{key: X.com/a, valueExpression: \"''\"}]}":             "extra[0].key",
		named + "\nunknown: 1": "unknown field",
	}
	for mapping, want := range tests {
		if _, err := open(t, i, mapping); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", mapping, err, want)
		}
	}
	for _, good := range []string{
		"claimMappings: {username: {expression: 'claims.email_verified ? claims.email : \"\"'}}",
		"claimMappings: {username: {expression: 'claims.email'}}\nclaimValidationRules: [{expression: 'claims.?email_verified.orValue(true) == true'}]",
	} {
		if _, err := open(t, i, good); err != nil {
			t.Errorf("open with %s: %v", good, err)
		}
	}
	for _, data := range []string{"", "kind: Pod", "apiVersion: apiserver.config.k8s.io/v1alpha1\nkind: AuthenticationConfiguration"} {
		if _, err := ParseConfiguration([]byte(data)); err == nil {
			t.Errorf("%q is accepted", data)
		}
	}
}

func TestAllAlgorithms(t *testing.T) {
	t.Parallel()
	if slices.Contains(allAlgorithms(), jose.HS256) {
		t.Error("a symmetric algorithm is supported")
	}
}

// FuzzUser checks that the parser does not panic, and that only the signed token is accepted.
func FuzzUser(f *testing.F) {
	i := oidctest.New(f)
	authenticators, err := open(f, i, bySubject)
	if err != nil {
		f.Fatal(err)
	}
	good := i.Token(f, map[string]any{"uid": "u"})
	signed := good[:strings.LastIndexByte(good, '.')]
	f.Add(good)
	f.Add("a.b.c")
	f.Fuzz(func(t *testing.T, token string) {
		if user, err := authenticators.User(t.Context(), token); user != nil && !strings.HasPrefix(token, signed) {
			t.Errorf("token %q: user %v, error %v", token, user, err)
		}
	})
}
