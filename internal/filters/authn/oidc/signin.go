package oidc

import (
	"context"
	"errors"

	"golang.org/x/sync/errgroup"
)

// SignIn contains the parameters that a web page needs to obtain an ID token of a provider for its user. The
// page uses the authorization code flow without a client secret.
type SignIn struct {
	Issuer string
	// ClientID is the first audience of the provider's tokens.
	ClientID string
	// The endpoints are https URLs. Their hosts can differ from the host of the issuer.
	AuthorizationEndpoint, TokenEndpoint string
	// Scopes are the supported scopes; empty if the provider does not list them. The slice is shared and must
	// not be modified.
	Scopes []string
}

// Discover reads the discovery documents of all providers. If documents cannot be read, it returns the joined
// errors, and the earlier documents of these providers remain in use. It blocks until all providers have
// responded or failed.
func (a *Authenticators) Discover(ctx context.Context) error {
	var running errgroup.Group
	errs := make([]error, len(a.providers))
	for i, p := range a.providers {
		running.Go(func() error {
			_, errs[i] = p.keys.discover(ctx)
			return nil
		})
	}
	_ = running.Wait()
	return errors.Join(errs...)
}

// SignIns returns the sign-ins of the providers whose discovery documents have been read, by Discover or as a
// part of a fetch of keys. It omits providers without https endpoints for sign-ins, such as issuers of workload
// tokens. It does not block.
func (a *Authenticators) SignIns() []SignIn {
	var usable []SignIn
	for _, p := range a.providers {
		found := p.keys.discovered.Load()
		if found == nil || requireHTTPS(found.AuthorizationEndpoint) != nil || requireHTTPS(found.TokenEndpoint) != nil {
			continue
		}
		usable = append(usable, SignIn{
			Issuer: p.issuer.URL, ClientID: p.issuer.Audiences[0], AuthorizationEndpoint: found.AuthorizationEndpoint, TokenEndpoint: found.TokenEndpoint, Scopes: found.Scopes,
		})
	}
	return usable
}
