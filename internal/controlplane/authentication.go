package controlplane

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"mainstay.dev/mainstay/internal/filters/authn"
	"mainstay.dev/mainstay/internal/filters/authz"
	"mainstay.dev/mainstay/internal/loopback"
	"mainstay.dev/mainstay/internal/request"
	"mainstay.dev/mainstay/internal/serviceaccount"
)

// defaultIssuer is the default issuer of service account tokens.
const defaultIssuer = "https://kubernetes.default.svc.cluster.local"

// Limits of --service-account-max-token-expiration, as in kube-apiserver.
const (
	minTokenExpiration = time.Hour
	maxTokenExpiration = (1 << 32) * time.Second
)

// newTokenIssuer returns the issuer of service account tokens.
func newTokenIssuer(s *settings) *serviceaccount.Issuer {
	options, identity := &s.options, &s.env.Identity
	expiration, lifetime := options.ServiceAccountMaxTokenExpiration, identity.MaxTokenLifetime
	if lifetime > 0 && (expiration == 0 || expiration > lifetime) {
		expiration = lifetime
	}
	return &serviceaccount.Issuer{
		Keys: identity.TokenKeys, Name: options.ServiceAccountIssuers[0], Audiences: options.APIAudiences,
		MaxExpiration: expiration, MaxLifetime: lifetime, Extend: !options.WithoutTokenExtension,
	}
}

// newTokenVerifiers returns the verifiers of bearer tokens in their order. A new kind of token is an
// implementation in filters/authn and an entry in this list; nil entries are disabled.
func newTokenVerifiers(s *settings, access *loopback.Access) authn.Tokens {
	identity, audiences := &s.env.Identity, s.options.APIAudiences
	secrets := loopback.For[*corev1.Secret](access, corev1.SchemeGroupVersion.WithResource("secrets"))
	anyAudience := func(user func(context.Context, string) (*request.User, error)) authn.TokenVerifier {
		if user == nil {
			return nil
		}
		return authn.AnyAudience{User: user, Audiences: audiences}
	}
	var bootstrapTokens authn.TokenVerifier
	if s.options.BootstrapTokens {
		bootstrapTokens = anyAudience(authn.BootstrapTokens{Secrets: secrets}.User)
	}
	return slices.DeleteFunc(authn.Tokens{
		anyAudience(identity.StaticTokens),
		newServiceAccountTokens(s, access, secrets),
		bootstrapTokens,
		anyAudience(identity.ProviderTokens),
		newWebhookTokens(s),
	}, func(v authn.TokenVerifier) bool { return v == nil })
}

func newServiceAccountTokens(s *settings, access *loopback.Access, secrets *loopback.Client[*corev1.Secret]) authn.TokenVerifier {
	core := corev1.SchemeGroupVersion
	return authn.NewServiceAccounts(authn.ServiceAccountConfig{
		Keys: s.env.Identity.TokenKeys, Issuers: s.options.ServiceAccountIssuers, Audiences: s.options.APIAudiences,
		Accounts:      loopback.For[*corev1.ServiceAccount](access, core.WithResource("serviceaccounts")),
		Pods:          loopback.For[*corev1.Pod](access, core.WithResource("pods")),
		Nodes:         loopback.For[*corev1.Node](access, core.WithResource("nodes")),
		Secrets:       secrets,
		UsedSecrets:   secrets,
		WithoutLookup: s.options.WithoutTokenLookup, Metrics: s.env.Telemetry.Metrics.Security.Tokens, Logger: s.env.Telemetry.Logger,
	})
}

func newWebhookTokens(s *settings) authn.TokenVerifier {
	if s.env.Identity.TokenWebhook == nil {
		return nil
	}
	return s.env.Identity.TokenWebhook.For(s.options.APIAudiences)
}

// newAuthenticator returns the authenticators of requests in their order.
func newAuthenticator(s *settings, tokens authn.Tokens) authn.Authenticator {
	return authn.Union{s.env.Identity.Authenticator, tokens}
}

// newAnonymous returns the configuration of requests without credentials. As in kube-apiserver, the
// mode AlwaysAllow disables anonymous requests.
func newAnonymous(s *settings, a *authorization) *authn.AnonymousConfig {
	switch {
	case a.configured(authz.TypeAlwaysAllow):
		return &authn.AnonymousConfig{}
	case s.env.Identity.Anonymous != nil:
		return s.env.Identity.Anonymous
	}
	return &authn.AnonymousConfig{Enabled: !s.options.ClosedToPublic}
}

// checkTokens validates the options of service account tokens.
func (o Options) checkTokens() error {
	var errs []error
	for i, issuer := range o.ServiceAccountIssuers {
		if issuer == "" {
			errs = append(errs, errors.New("--service-account-issuer is empty"))
		}
		if _, err := url.Parse(issuer); strings.Contains(issuer, ":") && err != nil { // StringOrURI of RFC 7519
			errs = append(errs, fmt.Errorf("--service-account-issuer=%s contained a ':' but was not a valid URL: %w", issuer, err))
		}
		if slices.Contains(o.ServiceAccountIssuers[:i], issuer) {
			errs = append(errs, fmt.Errorf("--service-account-issuer names %s twice", issuer))
		}
	}
	if uri := o.ServiceAccountJWKSURI; uri != "" {
		if u, err := url.Parse(uri); err != nil || u.Scheme != "https" {
			errs = append(errs, fmt.Errorf("--service-account-jwks-uri=%s: it must be an https URL", uri))
		}
	}
	if maximum := o.ServiceAccountMaxTokenExpiration; maximum != 0 && (maximum < minTokenExpiration || maximum > maxTokenExpiration) {
		errs = append(errs, fmt.Errorf("--service-account-max-token-expiration is %s; it must be between 1 hour and 2^32 seconds", maximum))
	}
	return errors.Join(errs...)
}
