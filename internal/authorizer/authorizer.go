// Package authorizer defines the interface for authorization. Attributes, Decision and Authorizer have the same
// names as in kube-apiserver's package authorizer. Package filters/authz contains the implementations. The
// authorization filter, access reviews, and handlers that require an additional permission call them.
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
	// DecisionDeny rejects the request without consulting further authorizers. It is the zero value, so that an
	// authorizer that returns no decision rejects the request.
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

// Attributes is the input for an authorization decision, from a request or an access review.
type Attributes struct {
	User *request.User
	// Verb is a Kubernetes verb; for non-resource requests, it is the HTTP method in lower case.
	Verb string
	// ResourceRequest reports whether the request is for a resource. If it is false, the fields from APIGroup
	// to Name are empty.
	ResourceRequest bool
	// APIVersion is "*" if an access review does not specify it.
	APIGroup, APIVersion, Namespace string
	Resource, Subresource, Name     string
	// Path is the path of the request. For non-resource requests, the path is authorized instead of a resource.
	Path string

	// The requirements are those of the selectors of a list, watch or collection deletion; nil without
	// selectors. If a selector cannot be parsed, its error is set and its requirements are nil, which
	// authorizes the request as if it had no selector. The requirements are shared and must not be modified.
	FieldSelectorRequirements fields.Requirements
	FieldSelectorParsingErr   error
	LabelSelectorRequirements labels.Requirements
	LabelSelectorParsingErr   error
}

// Authorizer decides whether a user may make a request. The second result is the reason, which may be empty and
// is sent to clients. An error can accompany any decision, and does not change the meaning of the decision.
// Authorize may block on a webhook, is safe for concurrent use, and must not modify the attributes.
type Authorizer interface {
	Authorize(ctx context.Context, attributes *Attributes) (Decision, string, error)
}

// Group is the API group in which Mainstay's own operations are authorized. controlplanes (package
// apis/controlplanes) is the only resource of the group that has objects.
const Group = "mainstay.dev"

// processPrefix is the prefix of paths that expose or change the whole process. Requests for these paths are
// authorized as requests for resources of Group, because many roles for monitoring allow the verb get on all
// non-resource paths.
const processPrefix = "/mainstay/v1/"

// AttributesOf returns the attributes of a request. It retains user. If a selector cannot be parsed, the
// attributes contain the error.
func AttributesOf(user *request.User, info *request.Info) Attributes {
	a := Attributes{User: user, Verb: info.Verb, Path: info.Path}
	if !info.IsResource {
		a.setProcessResource()
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

// setProcessResource sets the resource attributes if the path is below processPrefix.
func (a *Attributes) setProcessResource() {
	rest, ok := strings.CutPrefix(a.Path, processPrefix)
	if !ok {
		return
	}
	a.ResourceRequest, a.APIGroup, a.APIVersion = true, Group, "v1"
	if a.Verb == "head" { // HEAD has the verb get, as for other resources
		a.Verb = "get"
	}
	switch segment, _, _ := strings.Cut(rest, "/"); segment {
	case "snapshot":
		a.Resource, a.Verb = "snapshots", "download" // a separate verb, because roles with read access must not include it
	case "statistics":
		a.Resource = "statistics"
	case "faults":
		a.Resource = "faults"
	case "clock":
		a.Resource = "clocks"
	default:
		a.Resource = "unknown"
	}
}
