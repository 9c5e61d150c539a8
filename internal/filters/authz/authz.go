// Package authz contains the authorizers. A Union evaluates several in turn. They depend on the
// attributes of package authorizer only; filters.Authorize calls them.
package authz

import (
	"context"
	"errors"
	"slices"
	"strings"

	"mainstay.dev/mainstay/internal/authorizer"
	"mainstay.dev/mainstay/internal/request"
)

// Union evaluates its authorizers in order until one allows or denies. Otherwise, it joins all
// reasons and errors.
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

// AlwaysAllow allows everything to everyone.
type AlwaysAllow struct{}

// Authorize implements authorizer.Authorizer.
func (AlwaysAllow) Authorize(context.Context, *authorizer.Attributes) (authorizer.Decision, string, error) {
	return authorizer.DecisionAllow, "", nil
}

// AlwaysDeny denies all requests.
type AlwaysDeny struct{}

// Authorize implements authorizer.Authorizer. As kube-apiserver's it has no opinion, so
// that authorizers after it are heard.
func (AlwaysDeny) Authorize(context.Context, *authorizer.Attributes) (authorizer.Decision, string, error) {
	return authorizer.DecisionNoOpinion, "Everything is forbidden.", nil
}

// always returns an authorizer type without dependencies; nil for other types.
func always(of string) authorizer.Authorizer {
	switch of {
	case TypeAlwaysAllow:
		return AlwaysAllow{}
	case TypeAlwaysDeny:
		return AlwaysDeny{}
	}
	return nil
}

// ByModes lists authorizers by type, with the names that kube-apiserver uses without a
// configuration.
func ByModes(modes []string) []Listed {
	list := make([]Listed, len(modes))
	for i, mode := range modes {
		list[i] = Listed{Type: mode, Name: strings.ToLower(mode), Authorizer: always(mode)}
		if mode == TypeWebhook {
			list[i].Name = "default"
		}
	}
	return list
}
