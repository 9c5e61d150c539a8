package fleet

import (
	"context"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/apis/controlplanes"
	"mainstay.dev/mainstay/internal/authorizer"
	"mainstay.dev/mainstay/internal/filters/authn"
	"mainstay.dev/mainstay/internal/filters/authn/serviceaccount"
	"mainstay.dev/mainstay/internal/request"
)

// visitorPrefix precedes the names of users of the root control plane in other control planes.
const visitorPrefix = "root:"

// visitors authenticates users of the root control plane in the control plane of a request. A user needs
// the verb AccessVerb for the ControlPlane object, and is an administrator of the control plane. It
// implements authn.Authenticator.
type visitors struct{ fleet *Fleet }

// Authenticate implements authn.Authenticator. It returns the errors of the authenticator of the root
// control plane, and an *authn.RejectionError if a user of the root control plane does not have the
// permission or the authorization fails.
func (v visitors) Authenticate(r *http.Request) (*request.Authentication, error) {
	found, err := v.fleet.config.Root.Authenticate(r)
	if found == nil {
		return nil, err
	}
	if err := v.authorize(r.Context(), found.User); err != nil {
		return nil, &authn.RejectionError{Status: err}
	}
	entered := *found
	entered.User = &request.User{
		Name: visitorPrefix + found.User.Name, UID: found.User.UID, Groups: administratorGroups(), Extra: found.User.Extra,
	}
	entered.Audiences = nil
	return &entered, nil
}

// authorize returns an error if a user must not enter the control plane.
func (v visitors) authorize(ctx context.Context, user *request.User) error {
	resource := controlplanes.Resource()
	attributes := &authorizer.Attributes{
		User: user, Verb: controlplanes.AccessVerb, ResourceRequest: true,
		APIGroup: resource.Group, APIVersion: resource.Version, Resource: resource.Resource, Name: nameOf(request.PathPrefix(ctx)),
	}
	decision, reason, err := v.fleet.config.Root.Authorize(ctx, attributes)
	switch {
	case decision == authorizer.DecisionAllow:
		return nil
	case err != nil:
		return apierrors.NewInternalError(err)
	}
	return authorizer.Forbidden(attributes, reason)
}

// administrators authenticates the administrator of the control plane of a request, even if the control
// plane is closed. It implements authn.Authenticator.
type administrators struct{ fleet *Fleet }

// Authenticate implements authn.Authenticator.
func (a administrators) Authenticate(r *http.Request) (*request.Authentication, error) {
	return authn.Tokens{authn.UserTokens(a.user).Verifier(nil)}.Authenticate(r)
}

func (a administrators) user(ctx context.Context, token string) (*request.User, error) {
	p, err := a.fleet.find(ctx, nameOf(request.PathPrefix(ctx)))
	if p == nil || err != nil {
		return nil, err
	}
	return a.fleet.administrator(p.key.uid, token), nil
}

// administrator returns the administrator of a control plane if the token equals the token in its
// kubeconfig, and nil otherwise.
func (f *Fleet) administrator(uid types.UID, token string) *request.User {
	f.mu.RLock()
	want, ok := f.mu.hashes[uid]
	f.mu.RUnlock()
	if !ok || hashToken(token) != want {
		return nil
	}
	return &request.User{Name: administratorName, Groups: administratorGroups()}
}

// recognizes reports whether the credentials of a request may be valid in a closed control plane: they belong
// to its administrator or to a visitor, or its keys have signed them. It prevents clients without valid
// credentials from opening control planes. A valid signature does not authenticate the user:
// the control plane checks whether a service account exists, for example. The header of the request remains unchanged, because
// the control plane or the rejection authenticates the request again.
func (f *Fleet) recognizes(r *http.Request, p *plane) bool {
	if !hasCredentials(r) {
		return false
	}
	r = withOwnHeader(r)
	known := authn.Union{administrators{f}}
	keys, err := f.readKeys(r.Context(), p.key)
	if err != nil {
		return true // acquire reports the error
	}
	if keys != nil {
		identity, err := f.identity(p, keys)
		if err != nil {
			return true
		}
		known = append(known, identity.Authenticator, authn.Tokens{signedTokens(identity.TokenKeys).Verifier(nil)})
	}
	// The root control plane is last: its authenticators can send tokens to other servers.
	found, _ := append(known, visitors{f}).Authenticate(r)
	return found != nil
}

// signedTokens accepts the tokens that keys have signed.
func signedTokens(keys serviceaccount.Keys) authn.UserTokens {
	return func(ctx context.Context, token string) (*request.User, error) {
		parsed := serviceaccount.Parse(token)
		if parsed == nil {
			return nil, nil
		}
		if _, err := keys.Verify(ctx, parsed); err != nil {
			return nil, err
		}
		return &request.User{}, nil
	}
}

// hasCredentials reports whether a request has credentials of any kind, which may be invalid.
func hasCredentials(r *http.Request) bool {
	return r.Header.Get("Authorization") != "" || r.Header.Get("Sec-Websocket-Protocol") != "" || r.TLS != nil && len(r.TLS.PeerCertificates) > 0
}
