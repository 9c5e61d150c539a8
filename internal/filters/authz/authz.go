// Package authz contains the authorizers and combines them. Authorizers depend only on the
// attributes of package authorizer. filters.Authorize calls them.
package authz

import (
	"context"
	"errors"
	"slices"
	"strings"

	"mainstay.dev/mainstay/internal/authorizer"
	"mainstay.dev/mainstay/internal/request"
)

// Union evaluates its authorizers in order until one allows or denies. If none does, the decision
// is DecisionNoOpinion, with the joined reasons and errors of all authorizers. It is safe for
// concurrent use.
type Union []authorizer.Authorizer

// Authorize implements authorizer.Authorizer.
func (u Union) Authorize(ctx context.Context, attributes *authorizer.Attributes) (authorizer.Decision, string, error) {
	var reasons []string
	var errs []error
	for _, next := range u {
		decision, reason, err := next.Authorize(ctx, attributes)
		if decision != authorizer.DecisionNoOpinion {
			return decision, reason, err
		}
		if reason != "" {
			reasons = append(reasons, reason)
		}
		if err != nil {
			errs = append(errs, err)
		}
	}
	return authorizer.DecisionNoOpinion, strings.Join(reasons, "\n"), errors.Join(errs...)
}

// Masters allows all requests of the group system:masters. It is first in every union, so that
// administrators cannot be locked out.
type Masters struct{}

// Authorize implements authorizer.Authorizer.
func (Masters) Authorize(_ context.Context, a *authorizer.Attributes) (authorizer.Decision, string, error) {
	if a.User != nil && slices.Contains(a.User.Groups, request.GroupMasters) {
		return authorizer.DecisionAllow, "", nil
	}
	return authorizer.DecisionNoOpinion, "", nil
}

// AlwaysAllow allows all requests.
type AlwaysAllow struct{}

// Authorize implements authorizer.Authorizer.
func (AlwaysAllow) Authorize(context.Context, *authorizer.Attributes) (authorizer.Decision, string, error) {
	return authorizer.DecisionAllow, "", nil
}

// AlwaysDeny allows no request. Like kube-apiserver's authorizer of this name, it returns
// DecisionNoOpinion, so later authorizers of a Union can allow the request.
type AlwaysDeny struct{}

// Authorize implements authorizer.Authorizer.
func (AlwaysDeny) Authorize(context.Context, *authorizer.Attributes) (authorizer.Decision, string, error) {
	return authorizer.DecisionNoOpinion, "Everything is forbidden.", nil
}

// constantAuthorizer returns AlwaysAllow or AlwaysDeny, or nil for other types.
func constantAuthorizer(of string) authorizer.Authorizer {
	switch of {
	case TypeAlwaysAllow:
		return AlwaysAllow{}
	case TypeAlwaysDeny:
		return AlwaysDeny{}
	}
	return nil
}

// FromModes returns one authorizer for each mode of --authorization-mode, with the name that
// kube-apiserver uses. For modes other than AlwaysAllow and AlwaysDeny, the field Authorizer is
// nil. Unknown modes are not rejected.
func FromModes(modes []string) []NamedAuthorizer {
	list := make([]NamedAuthorizer, len(modes))
	for i, mode := range modes {
		list[i] = NamedAuthorizer{Type: mode, Name: strings.ToLower(mode), Authorizer: constantAuthorizer(mode)}
		if mode == TypeWebhook {
			list[i].Name = "default"
		}
	}
	return list
}
