// Package authorizer is the question whether a user may do something: the
// Attributes of a request, or of what an access review asks about, the Decision,
// and the interface of whatever decides. Its names are those of kube-apiserver's
// package of this name. What decides is in filters/authz; who asks is the filter
// in front of all requests, the access reviews, and whatever has to ask again in
// the middle of a request.
package authorizer

import (
	"context"
	"strings"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

	"mainstay.dev/mainstay/internal/request"
)

// Decision is the outcome of an authorization.
type Decision int

const (
	// DecisionDeny refuses the request; no other authorizer is asked. It is the
	// zero value, so that a decision which was forgotten allows nothing.
	DecisionDeny Decision = iota
	// DecisionAllow lets the request pass; no other authorizer is asked.
	DecisionAllow
	// DecisionNoOpinion leaves the decision to the next authorizer; where there
	// is no next one, the request is refused.
	DecisionNoOpinion
)

func (d Decision) String() string {
	switch d {
	case DecisionAllow:
		return "allowed"
	case DecisionDeny:
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
	// ResourceRequest separates resources, which the next fields describe, from
	// paths.
	ResourceRequest bool
	// APIVersion is "*" where an access review leaves it open.
	APIGroup, APIVersion, Namespace string
	Resource, Subresource, Name     string
	// Path is that of the request; for other than resources it is what is asked
	// for.
	Path string

	// The requirements that all objects asked for meet, of a list, a watch or
	// the deletion of a collection; nil where there are none. What cannot be parsed
	// is left out, which asks for more, and the error is kept. They are shared and
	// must not be changed.
	FieldSelectorRequirements fields.Requirements
	FieldSelectorParsingErr   error
	LabelSelectorRequirements labels.Requirements
	LabelSelectorParsingErr   error
}

// Authorizer decides. The reason may be empty; clients get to see it. An error
// may come with any decision, and does not revoke one that allows. Authorize may
// be called concurrently and must not change Attributes.
type Authorizer interface {
	Authorize(ctx context.Context, attributes *Attributes) (Decision, string, error)
}

// Group is the API group in which Mainstay's own functions are authorized. It has no
// resources that are served.
const Group = "mainstay.dev"

// privatePrefix is the prefix of paths that expose or change the whole process. A
// request below it is authorized as a resource request, because many roles that exist
// for monitoring allow get of all non-resource paths.
const privatePrefix = "/mainstay/v1/"

// AttributesOf returns the attributes that authorize a request.
func AttributesOf(user *request.User, info *request.Info) Attributes {
	a := Attributes{User: user, Verb: info.Verb, Path: info.Path}
	if !info.IsResource {
		a.setPrivate()
		return a
	}
	a.ResourceRequest = true
	a.APIGroup, a.APIVersion, a.Namespace = info.Group, info.Version, info.Namespace
	a.Resource, a.Subresource, a.Name = info.Resource, info.Subresource, info.Name
	if info.FieldSelector != "" {
		selector, err := fields.ParseSelector(info.FieldSelector)
		if err == nil {
			a.FieldSelectorRequirements = selector.Requirements()
		}
		a.FieldSelectorParsingErr = err
	}
	if info.LabelSelector != "" {
		selector, err := labels.Parse(info.LabelSelector)
		if err == nil {
			a.LabelSelectorRequirements, _ = selector.Requirements()
		}
		a.LabelSelectorParsingErr = err
	}
	return a
}

// setPrivate turns the attributes of a path below privatePrefix into those of its resource.
func (a *Attributes) setPrivate() {
	rest, private := strings.CutPrefix(a.Path, privatePrefix)
	if !private {
		return
	}
	a.ResourceRequest, a.APIGroup, a.APIVersion = true, Group, "v1"
	switch segment, _, _ := strings.Cut(rest, "/"); segment {
	case "snapshot":
		a.Resource, a.Verb = "snapshots", "download" // a verb that roles for reading do not contain
	case "faults":
		a.Resource = "faults"
	case "clock":
		a.Resource = "clocks"
	default:
		a.Resource = "unknown"
	}
}
