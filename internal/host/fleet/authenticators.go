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

// visitorPrefix is added to the names of users of the root control plane when they use other control planes.
const visitorPrefix = "root:"

// visitors authenticates users of the root control plane in the control plane of a request. A user needs
// the verb AccessVerb for the ControlPlane object, and becomes an administrator of the control plane.
// visitors implements authn.Authenticator.
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

// authorize returns an API error if the user must not enter the control plane of the request.
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
// plane is closed. administrators implements authn.Authenticator.
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

// recognizes reports whether the credentials of a request might be valid in a closed control plane. This is
// the case if they belong to its administrator or to a visitor, or if its keys signed them. The check
// prevents clients without valid credentials from opening control planes. A valid signature does not
// authenticate the user: for example, the control plane also checks whether a service account exists.
// recognizes does not modify the request header, because the control plane or the rejection handler
// authenticates the request again.
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

// hasCredentials reports whether a request contains credentials of any kind, whether valid or not.
func hasCredentials(r *http.Request) bool {
	return r.Header.Get("Authorization") != "" || r.Header.Get("Sec-Websocket-Protocol") != "" || r.TLS != nil && len(r.TLS.PeerCertificates) > 0
}
