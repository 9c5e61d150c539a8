// Package authorizer defines the contract of authorization: Attributes, Decision and Authorizer.
// The names are those of kube-apiserver's package. The implementations are in filters/authz.
// Callers are the authorization filter, access reviews, and handlers that require a further
// permission.
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
	// DecisionDeny rejects the request without consulting further authorizers. It is the zero
	// value, so that a missing decision allows no request.
	DecisionDeny Decision = iota
	// DecisionAllow allows the request without consulting further authorizers.
	DecisionAllow
	// DecisionNoOpinion defers to the next authorizer. If there is no next authorizer, the request
	// is rejected.
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

// Attributes are the input of a decision, from a request or from an access review.
type Attributes struct {
	User *request.User
	// Verb is a Kubernetes verb or, for other than resources, the HTTP method
	// in lower case.
	Verb string
	// ResourceRequest separates resources, which the next fields describe, from
	// paths.
	ResourceRequest bool
	// APIVersion is "*" if an access review does not specify it.
	APIGroup, APIVersion, Namespace string
	Resource, Subresource, Name     string
	// Path is the path of the request. For non-resource requests, it is the subject of the
	// decision.
	Path string

	// The selector requirements of a list, watch or collection deletion; nil without selectors.
	// Requirements that cannot be parsed are omitted, which widens the request, and the error is
	// set. They are shared and must not be modified.
	FieldSelectorRequirements fields.Requirements
	FieldSelectorParsingErr   error
	LabelSelectorRequirements labels.Requirements
	LabelSelectorParsingErr   error
}

// Authorizer makes decisions. The reason may be empty and is sent to clients. An error may
// accompany any decision; it does not revoke DecisionAllow. Authorize is safe for concurrent use
// and must not modify Attributes.
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

// setPrivate sets the resource attributes of a path below privatePrefix.
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
