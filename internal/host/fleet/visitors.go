package fleet

import (
	"context"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/apis/controlplanes"
	"mainstay.dev/mainstay/internal/authorizer"
	"mainstay.dev/mainstay/internal/request"
)

// visitorPrefix precedes the names of users of the root control plane in other control planes.
const visitorPrefix = "root:"

// visitors authenticates the users of the root control plane that enter another one. They need the verb
// AccessVerb for its object, and are administrators there. It implements authn.Authenticator.
type visitors struct {
	fleet *Fleet
	name  string // of the control plane
}

// Authenticate implements authn.Authenticator. The error has the status 403 for users of the root control
// plane without the permission.
func (v *visitors) Authenticate(r *http.Request) (*request.Authentication, error) {
	found, err := v.fleet.config.Root.Authenticate(r)
	if found == nil {
		return nil, err
	}
	if err := v.authorize(r.Context(), found.User); err != nil {
		return nil, err
	}
	entered := *found
	entered.User = &request.User{
		Name: visitorPrefix + found.User.Name, UID: found.User.UID,
		Groups: administratorGroups(), Extra: found.User.Extra,
	}
	entered.Audiences = nil
	return &entered, nil
}

// authorize returns an error if a user must not enter the control plane.
func (v *visitors) authorize(ctx context.Context, user *request.User) error {
	resource := controlplanes.Resource()
	attributes := &authorizer.Attributes{
		User: user, Verb: controlplanes.AccessVerb, ResourceRequest: true,
		APIGroup: resource.Group, APIVersion: resource.Version, Resource: resource.Resource, Name: v.name,
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

// administrator returns the administrator of a control plane if the token is the one of its kubeconfig,
// and nil otherwise.
func (f *Fleet) administrator(uid types.UID, token string) *request.User {
	f.mu.RLock()
	want, ok := f.mu.hashes[uid]
	f.mu.RUnlock()
	if !ok || hashToken(token) != want {
		return nil
	}
	return &request.User{Name: administratorName, Groups: administratorGroups()}
}
