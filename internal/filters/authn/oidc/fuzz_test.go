package oidc

import (
	"log/slog"
	"testing"

	"mainstay.dev/mainstay/internal/filters/authn/oidc/oidctest"
)

// FuzzConfiguration checks that no configuration file causes a panic.
func FuzzConfiguration(f *testing.F) {
	const head = "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\n"
	f.Add(head + "anonymous: {enabled: true, conditions: [{path: /livez}]}\n")
	f.Add(head + "jwt:\n- issuer: {url: https://x, audiences: [a]}\n  " + bySubject + "\n  userValidationRules: [{expression: 'true'}]\n")
	f.Add(head + "jwt: [null, {claimMappings: {extra: [{key: a/b, valueExpression: claims.x}]}}]\n")
	f.Fuzz(func(t *testing.T, text string) {
		c, err := ParseConfiguration([]byte(text))
		if err != nil {
			return
		}
		if a, err := New(Config{Configuration: c, Logger: slog.New(slog.DiscardHandler)}); err == nil && len(a.providers) != len(c.JWT) {
			t.Errorf("%d providers of %d", len(a.providers), len(c.JWT))
		}
	})
}

// FuzzClaims checks that no claims of a signed token cause a panic or result in a user without a
// name.
func FuzzClaims(f *testing.F) {
	i := oidctest.New(f)
	var providers []*provider
	for _, mapping := range []string{bySubject, byExpressions} {
		a, err := open(f, i, mapping)
		if err != nil {
			f.Fatal(err)
		}
		providers = append(providers, a.providers...)
	}
	f.Add(`{"sub":"jane","groups":["a"],"uid":"u","roles":"a,b","number":1}`)
	f.Add(`{"sub":1,"groups":{"a":null},"_claim_names":{"groups":"s"},"_claim_sources":{"s":{"endpoint":"http://127.0.0.1:1"}}}`)
	f.Fuzz(func(t *testing.T, text string) {
		for _, p := range providers {
			claims, err := readClaims([]byte(text))
			if err != nil {
				return
			}
			_, _ = claimStrings(claims, "aud")
			_, _ = claimTime(claims, "exp")
			if p.groups != nil {
				_, _ = p.groups.source(claims)
			}
			if user, err := p.mapper.user(t.Context(), claims); err == nil && user.Name == "" {
				t.Errorf("user of the claims %s: %+v, want a name", text, user)
			}
		}
	})
}
