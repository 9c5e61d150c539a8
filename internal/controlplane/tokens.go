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
	"mainstay.dev/mainstay/internal/loopback"
	"mainstay.dev/mainstay/internal/request"
	"mainstay.dev/mainstay/internal/serviceaccount"
)

// defaultIssuer is the issuer of service account tokens.
const defaultIssuer = "https://kubernetes.default.svc.cluster.local"

// Limits of --service-account-max-token-expiration, as kube-apiserver's.
const (
	minTokenExpiration = time.Hour
	maxTokenExpiration = (1 << 32) * time.Second
)

// issuer issues tokens of service accounts.
func (i *instance) issuer() *serviceaccount.Issuer {
	expiration, lifetime := i.options.ServiceAccountMaxTokenExpiration, i.env.Identity.MaxTokenLifetime
	if lifetime > 0 && (expiration == 0 || expiration > lifetime) {
		expiration = lifetime
	}
	return &serviceaccount.Issuer{
		Keys: i.env.Identity.TokenKeys, Name: i.options.ServiceAccountIssuers[0], Audiences: i.options.APIAudiences,
		MaxExpiration: expiration, MaxLifetime: lifetime, Extend: !i.options.WithoutTokenExtension,
	}
}

// openTokens creates the verifiers of bearer tokens, in order.
func (i *instance) openTokens() error {
	secrets := loopback.For[*corev1.Secret](i.local, corev1.SchemeGroupVersion.WithResource("secrets"))
	accounts := authn.NewServiceAccounts(authn.ServiceAccountConfig{
		Keys: i.env.Identity.TokenKeys, Issuers: i.options.ServiceAccountIssuers, Audiences: i.options.APIAudiences,
		Accounts:      loopback.For[*corev1.ServiceAccount](i.local, corev1.SchemeGroupVersion.WithResource("serviceaccounts")),
		Pods:          loopback.For[*corev1.Pod](i.local, corev1.SchemeGroupVersion.WithResource("pods")),
		Secrets:       secrets,
		UsedSecrets:   secrets,
		Nodes:         loopback.For[*corev1.Node](i.local, corev1.SchemeGroupVersion.WithResource("nodes")),
		WithoutLookup: i.options.WithoutTokenLookup, Metrics: i.env.Metrics.Tokens, Logger: i.env.Logger,
	})
	add := func(user func(context.Context, string) (*request.User, error)) {
		if user != nil {
			i.tokens = append(i.tokens, authn.AnyAudience{User: user, Audiences: i.options.APIAudiences})
		}
	}
	add(i.env.Identity.StaticTokens)
	i.tokens = append(i.tokens, accounts)
	if i.options.BootstrapTokens {
		add(authn.BootstrapTokens{Secrets: secrets}.User)
	}
	add(i.env.Identity.ProviderTokens)
	if webhook := i.env.Identity.TokenWebhook; webhook != nil {
		i.tokens = append(i.tokens, webhook.For(i.options.APIAudiences))
	}
	return nil
}

// authenticateToken serves TokenReviews. It is for requests only: during the construction of rows,
// the verifiers do not exist yet.
func (i *instance) authenticateToken(ctx context.Context, token string, audiences []string) (*request.Authentication, error) {
	return i.tokens.AuthenticateToken(ctx, token, audiences)
}

// checkTokens validates the options of service account tokens.
func (o Options) checkTokens() error {
	var errs []error
	for i, issuer := range o.ServiceAccountIssuers {
		if issuer == "" {
			errs = append(errs, errors.New("--service-account-issuer is empty"))
		}
		if _, err := url.Parse(issuer); strings.Contains(issuer, ":") && err != nil { // by the rules of JSON Web Tokens
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
	if most := o.ServiceAccountMaxTokenExpiration; most != 0 && (most < minTokenExpiration || most > maxTokenExpiration) {
		errs = append(errs, fmt.Errorf("--service-account-max-token-expiration is %s; it must be between 1 hour and 2^32 seconds", most))
	}
	return errors.Join(errs...)
}
