package controlplane

import (
	corev1 "k8s.io/api/core/v1"

	"mainstay.dev/mainstay/internal/filters/authn"
	"mainstay.dev/mainstay/internal/filters/authn/serviceaccount"
	"mainstay.dev/mainstay/internal/filters/authz"
	"mainstay.dev/mainstay/internal/loopback"
)

// newTokenIssuer returns the issuer of service account tokens. Their maximum lifetime is the shorter of
// MaxTokenExpiration and MaxTokenLifetime.
func newTokenIssuer(s *settings) *serviceaccount.Issuer {
	options, identity := &s.options, &s.env.Identity
	expiration, lifetime := options.ServiceAccounts.MaxTokenExpiration, identity.MaxTokenLifetime
	if lifetime > 0 && (expiration == 0 || expiration > lifetime) {
		expiration = lifetime
	}
	return &serviceaccount.Issuer{
		Keys: identity.TokenKeys, Name: options.ServiceAccounts.Issuers[0], Audiences: options.Authentication.APIAudiences,
		MaxExpiration: expiration, MaxLifetime: lifetime, Extend: !options.ServiceAccounts.DisableTokenExtension,
	}
}

// newTokenVerifiers returns the verifiers of bearer tokens. The verifiers that read objects of the control
// plane come before the verifiers of the host.
func newTokenVerifiers(s *settings, access *loopback.Access) authn.Tokens {
	audiences := s.options.Authentication.APIAudiences
	secrets := loopback.For[*corev1.Secret](access, corev1.SchemeGroupVersion.WithResource("secrets"))
	verifiers := authn.Tokens{newServiceAccountTokens(s, access, secrets)}
	if s.options.Authentication.BootstrapTokens {
		verifiers = append(verifiers, authn.UserTokens(authn.BootstrapTokens{Secrets: secrets}.User).Verifier(audiences))
	}
	for _, source := range s.env.Identity.TokenAuthenticators {
		verifiers = append(verifiers, source.Verifier(audiences))
	}
	return verifiers
}

func newServiceAccountTokens(s *settings, access *loopback.Access, secrets *loopback.Client[*corev1.Secret]) authn.TokenVerifier {
	core := corev1.SchemeGroupVersion
	return authn.NewServiceAccounts(authn.ServiceAccountConfig{
		Keys: s.env.Identity.TokenKeys, Issuers: s.options.ServiceAccounts.Issuers, Audiences: s.options.Authentication.APIAudiences,
		Accounts:    loopback.For[*corev1.ServiceAccount](access, core.WithResource("serviceaccounts")),
		Pods:        loopback.For[*corev1.Pod](access, core.WithResource("pods")),
		Nodes:       loopback.For[*corev1.Node](access, core.WithResource("nodes")),
		Secrets:     secrets,
		UsedSecrets: secrets,
		SkipLookup:  s.options.ServiceAccounts.DisableTokenLookup, Metrics: s.env.Telemetry.Metrics.Security.Tokens, Logger: s.env.Telemetry.Logger,
	})
}

// newAuthenticator returns an authenticator that tries the authenticator of the host, tokens, and the
// authenticator of visitors, in this order.
func newAuthenticator(s *settings, tokens authn.Tokens) authn.Authenticator {
	all := authn.Union{s.env.Identity.Authenticator, tokens}
	if visitors := s.env.Identity.Visitors; visitors != nil {
		all = append(all, visitors)
	}
	return all
}

// newAnonymous returns the configuration for requests without credentials. As in kube-apiserver, the
// authorization mode AlwaysAllow disables anonymous requests.
func newAnonymous(s *settings, a *authorization) *authn.AnonymousConfig {
	switch {
	case a.configured(authz.TypeAlwaysAllow):
		return &authn.AnonymousConfig{}
	case s.env.Identity.Anonymous != nil:
		return s.env.Identity.Anonymous
	}
	return &authn.AnonymousConfig{Enabled: !s.options.Authentication.DisableAnonymousAuth}
}
