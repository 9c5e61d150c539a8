// Package authz has the authorizers: what decides whether a user may do what a
// request asks for. A Union asks several in turn. They do not know how the
// request came in, nor what is done to it afterwards: the filter that asks is
// filters.Authorize, and the question is package authorizer's.
package authz

import (
	"context"
	"errors"
	"slices"
	"strings"

	"mainstay.dev/mainstay/internal/authorizer"
	"mainstay.dev/mainstay/internal/request"
)

// Union asks its authorizers in order until one allows or denies. Where none
// does, the reasons and errors of all are joined.
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

// Masters allows everything to the group system:masters. It stands first in
// every union, so that a cluster cannot lock out its administrator.
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

// AlwaysDeny refuses everything to everyone.
type AlwaysDeny struct{}

// Authorize implements authorizer.Authorizer. As kube-apiserver's it has no opinion, so
// that authorizers after it are heard.
func (AlwaysDeny) Authorize(context.Context, *authorizer.Attributes) (authorizer.Decision, string, error) {
	return authorizer.DecisionNoOpinion, "Everything is forbidden.", nil
}

// always returns the authorizer of a type that needs nothing; nil for other types.
func always(of string) authorizer.Authorizer {
	switch of {
	case TypeAlwaysAllow:
		return AlwaysAllow{}
	case TypeAlwaysDeny:
		return AlwaysDeny{}
	}
	return nil
}

// ByModes lists authorizers by their types alone, under the names that kube-apiserver gives
// them where no configuration does.
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
