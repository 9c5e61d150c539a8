package authorizer_test

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	"mainstay.dev/mainstay/internal/authorizer"
	"mainstay.dev/mainstay/internal/request"
)

func TestAttributesOf(t *testing.T) {
	t.Parallel()
	user := &request.User{Name: "jane"}
	for name, test := range map[string]struct {
		info request.Info
		want authorizer.Attributes
	}{
		"a resource": {
			request.Info{IsResource: true, Verb: "get", Group: "apps", Version: "v1", Namespace: "a", Resource: "deployments", Subresource: "scale", Name: "x", Path: "/p"},
			authorizer.Attributes{User: user, Verb: "get", ResourceRequest: true, APIGroup: "apps", APIVersion: "v1", Namespace: "a", Resource: "deployments", Subresource: "scale", Name: "x", Path: "/p"},
		},
		"a snapshot": {
			request.Info{Verb: "get", Path: "/mainstay/v1/snapshot"},
			authorizer.Attributes{User: user, Verb: "download", ResourceRequest: true, APIGroup: "mainstay.dev", APIVersion: "v1", Resource: "snapshots", Path: "/mainstay/v1/snapshot"},
		},
		"statistics": {
			request.Info{Verb: "get", Path: "/mainstay/v1/statistics"},
			authorizer.Attributes{User: user, Verb: "get", ResourceRequest: true, APIGroup: "mainstay.dev", APIVersion: "v1", Resource: "statistics", Path: "/mainstay/v1/statistics"},
		},
		"the header of statistics": {
			request.Info{Verb: "head", Path: "/mainstay/v1/statistics"},
			authorizer.Attributes{User: user, Verb: "get", ResourceRequest: true, APIGroup: "mainstay.dev", APIVersion: "v1", Resource: "statistics", Path: "/mainstay/v1/statistics"},
		},
		"the header of a snapshot": {
			request.Info{Verb: "head", Path: "/mainstay/v1/snapshot"},
			authorizer.Attributes{User: user, Verb: "download", ResourceRequest: true, APIGroup: "mainstay.dev", APIVersion: "v1", Resource: "snapshots", Path: "/mainstay/v1/snapshot"},
		},
		"the header of a fault": {
			request.Info{Verb: "head", Path: "/mainstay/v1/faults/3"},
			authorizer.Attributes{User: user, Verb: "get", ResourceRequest: true, APIGroup: "mainstay.dev", APIVersion: "v1", Resource: "faults", Path: "/mainstay/v1/faults/3"},
		},
		"a fault": {
			request.Info{Verb: "delete", Path: "/mainstay/v1/faults/3"},
			authorizer.Attributes{User: user, Verb: "delete", ResourceRequest: true, APIGroup: "mainstay.dev", APIVersion: "v1", Resource: "faults", Path: "/mainstay/v1/faults/3"},
		},
		"an unknown private path": {
			request.Info{Verb: "get", Path: "/mainstay/v1/"},
			authorizer.Attributes{User: user, Verb: "get", ResourceRequest: true, APIGroup: "mainstay.dev", APIVersion: "v1", Resource: "unknown", Path: "/mainstay/v1/"},
		},
		"a path": {request.Info{Verb: "get", Path: "/metrics"}, authorizer.Attributes{User: user, Verb: "get", Path: "/metrics"}},
	} {
		if diff := cmp.Diff(test.want, authorizer.AttributesOf(user, &test.info)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestSelectors checks that the attributes of collection requests contain the selectors, or the
// error of an invalid selector.
func TestSelectors(t *testing.T) {
	t.Parallel()
	onNode := fields.Requirements{{Field: "spec.nodeName", Operator: selection.Equals, Value: "n"}}
	for line, test := range map[string]struct {
		fields              fields.Requirements
		labels              string
		badFields, badLabel bool
	}{
		"GET /api/v1/pods": {},
		"GET /api/v1/pods?fieldSelector=spec.nodeName%3Dn":                 {fields: onNode},
		"GET /api/v1/pods?watch=1&fieldSelector=spec.nodeName%3Dn":         {fields: onNode},
		"GET /api/v1/pods?fieldSelector=spec.nodeName%3Dn&labelSelector=a": {fields: onNode, labels: "a"},
		"GET /api/v1/pods?fieldSelector=x&labelSelector=a":                 {badFields: true, labels: "a"},
		"GET /api/v1/pods?fieldSelector=spec.nodeName%3Dn&labelSelector=!": {fields: onNode, badLabel: true},
		"GET /api/v1/pods?limit=x&labelSelector=a":                         {labels: "a"},
		"DELETE /api/v1/namespaces/a/pods?labelSelector=a":                 {labels: "a"},
		"GET /api/v1/watch/pods?labelSelector=a":                           {},
		"GET /api/v1/namespaces/a/pods/p?labelSelector=a":                  {},
		"POST /api/v1/namespaces/a/pods?labelSelector=a":                   {},
	} {
		method, target, _ := strings.Cut(line, " ")
		info, err := request.Parse(httptest.NewRequest(method, target, nil))
		if err != nil {
			t.Fatal(err)
		}
		got := authorizer.AttributesOf(nil, &info)
		if diff := cmp.Diff(test.fields, got.FieldSelectorRequirements); diff != "" {
			t.Errorf("%s: fields (-want +got):\n%s", line, diff)
		}
		if text := labels.NewSelector().Add(got.LabelSelectorRequirements...).String(); text != test.labels {
			t.Errorf("%s: labels %q, want %q", line, text, test.labels)
		}
		if (got.FieldSelectorParsingErr != nil) != test.badFields || (got.LabelSelectorParsingErr != nil) != test.badLabel {
			t.Errorf("%s: errors %v, %v", line, got.FieldSelectorParsingErr, got.LabelSelectorParsingErr)
		}
	}
}

func TestForbidden(t *testing.T) {
	t.Parallel()
	user := &request.User{Name: "jane"}
	for want, a := range map[string]authorizer.Attributes{
		`forbidden: User "jane" cannot get path "/x&lt;y&gt;"`: {User: user, Verb: "get", Path: "/x<y>"},
		`pods "p" is forbidden: User "" cannot create resource "pods/exec" in API group "" in the namespace "a"`: {
			Verb: "create", ResourceRequest: true, Resource: "pods", Subresource: "exec", Namespace: "a", Name: "p"},
		`deployments.apps is forbidden: User "jane" cannot list resource "deployments" in API group "apps" at the cluster scope`: {
			User: user, Verb: "list", ResourceRequest: true, APIGroup: "apps", Resource: "deployments"},
	} {
		if got := authorizer.Forbidden(&a, ""); got.Error() != want {
			t.Errorf("%s, want %s", got, want)
		}
		if got := authorizer.Forbidden(&a, "because"); got.Error() != want+": because" {
			t.Errorf("with a reason: %s", got)
		}
	}
}
