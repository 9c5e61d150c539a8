// Package authz answers whether a user may do what a request asks for. An
// Authorizer decides; a Union asks several in turn. It does not know how the
// request came in, nor what is done to it afterwards: the filter that asks is
// filters.Authorize.
//
// Imports: request.
package authz

import (
	"context"
	"errors"
	"slices"
	"strings"

	"mainstay.dev/mainstay/request"
)

// Decision is what an Authorizer makes of a request.
type Decision int

const (
	// NoOpinion leaves the decision to the next authorizer; where there is no
	// next one, the request is refused.
	NoOpinion Decision = iota
	// Allow lets the request pass; no other authorizer is asked.
	Allow
	// Deny refuses the request; no other authorizer is asked.
	Deny
)

func (d Decision) String() string {
	switch d {
	case Allow:
		return "allowed"
	case Deny:
		return "denied"
	}
	return "no-opinion"
}

// Attributes are what a decision is made from: a request's, or those that an
// access review asks about.
type Attributes struct {
	User *request.User
	// Verb is a Kubernetes verb or, for other than resources, the HTTP method
	// in lower case.
	Verb string
	// IsResource tells resources, which the next fields describe, from paths.
	IsResource                  bool
	Group, Version, Namespace   string
	Resource, Subresource, Name string
	// Path is that of a request for other than resources.
	Path string
}

// AttributesOf returns what a request asks leave for.
func AttributesOf(user *request.User, info *request.Info) Attributes {
	a := Attributes{User: user, Verb: info.Verb, Path: info.Path}
	if info.IsResource {
		a.IsResource = true
		a.Group, a.Version, a.Namespace = info.Group, info.Version, info.Namespace
		a.Resource, a.Subresource, a.Name = info.Resource, info.Subresource, info.Name
	}
	return a
}

// Authorizer decides. The reason may be empty; it is told to the client. An
// error comes with NoOpinion, or with Deny where the question cannot be left to
// others. Authorize may be called concurrently and must not change Attributes.
type Authorizer interface {
	Authorize(ctx context.Context, attributes *Attributes) (Decision, string, error)
}

// Union asks its authorizers in order until one allows or denies. Where none
// does, the reasons and errors of all are joined.
type Union []Authorizer

// Authorize implements Authorizer.
func (u Union) Authorize(ctx context.Context, attributes *Attributes) (Decision, string, error) {
	var reasons []string
	var errs []error
	for _, authorizer := range u {
		decision, reason, err := authorizer.Authorize(ctx, attributes)
		if decision != NoOpinion {
			return decision, reason, err
		}
		if reason != "" {
			reasons = append(reasons, reason)
		}
		if err != nil {
			errs = append(errs, err)
		}
	}
	return NoOpinion, strings.Join(reasons, "\n"), errors.Join(errs...)
}

// Masters allows everything to the group system:masters. It stands first in
// every union, so that a cluster cannot lock out its administrator.
type Masters struct{}

// Authorize implements Authorizer.
func (Masters) Authorize(_ context.Context, a *Attributes) (Decision, string, error) {
	if a.User != nil && slices.Contains(a.User.Groups, request.GroupMasters) {
		return Allow, "", nil
	}
	return NoOpinion, "", nil
}

// PublicInfo allows everyone to get what the role system:public-info-viewer
// names: health and version.
type PublicInfo struct{}

// Authorize implements Authorizer.
func (PublicInfo) Authorize(_ context.Context, a *Attributes) (Decision, string, error) {
	if a.IsResource || a.Verb != "get" {
		return NoOpinion, "", nil
	}
	switch a.Path {
	case "/healthz", "/livez", "/readyz", "/version", "/version/":
		return Allow, "", nil
	}
	return NoOpinion, "", nil
}

// AlwaysAllow allows everything to everyone.
type AlwaysAllow struct{}

// Authorize implements Authorizer.
func (AlwaysAllow) Authorize(context.Context, *Attributes) (Decision, string, error) {
	return Allow, "", nil
}

// AlwaysDeny refuses everything to everyone.
type AlwaysDeny struct{}

// Authorize implements Authorizer. As kube-apiserver's it has no opinion, so
// that authorizers after it are heard.
func (AlwaysDeny) Authorize(context.Context, *Attributes) (Decision, string, error) {
	return NoOpinion, "Everything is forbidden.", nil
}
