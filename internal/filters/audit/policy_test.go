package audit

import (
	"strings"
	"testing"

	"mainstay.dev/mainstay/internal/authorizer"
	"mainstay.dev/mainstay/internal/request"
)

const documented = `
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
omitManagedFields: true
rules:
- level: RequestResponse
  omitManagedFields: false
  resources: [{group: "", resources: [pods]}]
- level: Metadata
  resources: [{group: "", resources: [pods/log, pods/status]}]
- level: None
  resources: [{group: "", resources: [configmaps], resourceNames: [controller-leader]}]
- level: None
  users: ["system:kube-proxy"]
  verbs: [watch]
  resources: [{group: "", resources: [endpoints, services]}]
- level: None
  userGroups: ["system:authenticated"]
  nonResourceURLs: ["/api*", "/version"]
- level: Request
  resources: [{group: "", resources: [configmaps]}]
  namespaces: [kube-system]
- level: Request
  namespaces: [""]
  resources: [{group: ""}]
- level: RequestResponse
  omitStages: [ResponseStarted]
  resources: [{group: apps, resources: ["*/scale", "deployments/*"]}]
- level: Metadata
  resources: [{group: "*", resources: [secrets]}, {group: batch, resources: ["*"]}]
`

func mustParse(t testing.TB, text string) *Policy {
	t.Helper()
	policy, warnings, err := ParsePolicy([]byte(text))
	if err != nil || len(warnings) > 0 {
		t.Fatal(err, warnings)
	}
	return policy
}

// TestDecide evaluates a policy similar to the example in the Kubernetes documentation.
func TestDecide(t *testing.T) {
	t.Parallel()
	rules := NewRules(mustParse(t, documented))
	jane := &request.User{Name: "jane", Groups: []string{"dev", "system:authenticated"}}
	proxy := &request.User{Name: "system:kube-proxy", Groups: []string{"system:authenticated"}}
	resource := func(user *request.User, verb, group, namespace, name string, rest ...string) authorizer.Attributes {
		resource, subresource, _ := strings.Cut(name, "/")
		a := authorizer.Attributes{User: user, Verb: verb, ResourceRequest: true, APIGroup: group, Namespace: namespace, Resource: resource, Subresource: subresource}
		if len(rest) > 0 {
			a.Name = rest[0]
		}
		return a
	}
	path := func(user *request.User, path string) authorizer.Attributes {
		return authorizer.Attributes{User: user, Verb: "get", Path: path}
	}
	for name, test := range map[string]struct {
		attributes authorizer.Attributes
		want       Level
	}{
		"pods":                                {resource(jane, "get", "", "a", "pods"), LevelRequestResponse},
		"without a user":                      {resource(nil, "get", "", "a", "pods"), LevelRequestResponse},
		"a subresource":                       {resource(jane, "get", "", "a", "pods/log"), LevelMetadata},
		"another subresource":                 {resource(jane, "get", "", "a", "pods/exec"), LevelNone},
		"a group":                             {resource(jane, "get", "metrics.k8s.io", "a", "pods"), LevelNone},
		"a name":                              {resource(jane, "get", "", "kube-system", "configmaps", "controller-leader"), LevelNone},
		"another name":                        {resource(jane, "get", "", "kube-system", "configmaps", "x"), LevelRequest},
		"another namespace":                   {resource(jane, "get", "", "a", "configmaps", "x"), LevelNone},
		"no namespace":                        {resource(jane, "get", "", "", "nodes", "x"), LevelRequest},
		"a user":                              {resource(proxy, "watch", "", "", "services"), LevelNone},
		"another user":                        {resource(jane, "watch", "", "", "services"), LevelRequest},
		"another verb":                        {resource(proxy, "list", "", "", "services"), LevelRequest},
		"a path":                              {path(jane, "/version"), LevelNone},
		"a path with the prefix":              {path(jane, "/apis/apps"), LevelNone},
		"a path without a user":               {path(nil, "/version"), LevelNone},
		"*/scale":                             {resource(jane, "get", "apps", "a", "statefulsets/scale"), LevelRequestResponse},
		"status is not scale":                 {resource(jane, "get", "apps", "a", "statefulsets/status"), LevelNone},
		"deployments/*":                       {resource(jane, "get", "apps", "a", "deployments/status"), LevelRequestResponse},
		"deployments/* without a subresource": {resource(jane, "get", "apps", "a", "deployments"), LevelRequestResponse},
		"any group":                           {resource(jane, "get", "example.com", "a", "secrets"), LevelMetadata},
		"any resource of a group":             {resource(jane, "get", "batch", "a", "jobs/status"), LevelMetadata},
		"no matching rule":                    {resource(jane, "get", "policy", "a", "poddisruptionbudgets"), LevelNone},
	} {
		if got := rules.Decide(&test.attributes); got.Level != test.want {
			t.Errorf("%s: %s, want %s", name, got.Level, test.want)
		}
	}
	pods := resource(jane, "get", "", "a", "pods")
	if got := rules.Decide(&pods); got.OmitManagedFields || got.Records(StageRequestReceived) || !got.Records(StageResponseStarted) {
		t.Errorf("a rule and its policy: %+v", got)
	}
	scale := resource(jane, "get", "apps", "a", "statefulsets/scale")
	if got := rules.Decide(&scale); !got.OmitManagedFields || got.Records(StageRequestReceived) || got.Records(StageResponseStarted) || !got.Records(StagePanic) {
		t.Errorf("stages of a rule and its policy: %+v", got)
	}
}

// TestInvalidPolicies checks that invalid policies are rejected with kube-apiserver's messages.
func TestInvalidPolicies(t *testing.T) {
	t.Parallel()
	const head = "apiVersion: audit.k8s.io/v1\nkind: Policy\n"
	for text, want := range map[string]string{
		"":  "Object 'Kind' is missing",
		"{": "failed decoding",
		"apiVersion: audit.k8s.io/v1\nrules: [{level: None}]": "Object 'Kind' is missing",
		"kind: Policy\nrules: [{level: None}]":                "Object 'apiVersion' is missing",
		"apiVersion: audit.k8s.io/v1beta1\nkind: Policy\n":    "unknown group version field audit.k8s.io/v1beta1, Kind=Policy in policy",
		"apiVersion: audit.k8s.io/v1\nkind: Event\n":          "unknown group version field audit.k8s.io/v1, Kind=Event in policy",
		head:                           "loaded illegal policy with 0 rules",
		head + "rules: []":             "loaded illegal policy with 0 rules",
		head + "rules: x":              "failed decoding",
		head + "rules: [{}]":           "rules[0].level: Required value",
		head + "rules: [{level: All}]": `rules[0].level: Unsupported value: "All": supported values: "None", "Metadata", "Request", "RequestResponse"`,
		head + "rules: [{level: None, nonResourceURLs: [api]}]":                 `rules[0].nonResourceURLs[0]: Invalid value: "api": non-resource URL rules must begin with a '/' character`,
		head + "rules: [{level: None, nonResourceURLs: ['']}]":                  `must begin with a '/' character`,
		head + "rules: [{level: None, nonResourceURLs: ['/a*b']}]":              `rules[0].nonResourceURLs[0]: Invalid value: "/a*b": non-resource URL wildcards '*' must be the final character of the rule`,
		head + "rules: [{level: None, resources: [{group: apps/v1}]}]":          `rules[0].resources.group: Invalid value: "apps/v1"`,
		head + "rules: [{level: None, resources: [{resourceNames: [x]}]}]":      `rules[0].resources.resourceNames: Invalid value: ["x"]: using resourceNames requires at least one resource`,
		head + "rules: [{level: None, namespaces: [a], nonResourceURLs: [/x]}]": `rules cannot apply to both regular resources and non-resource URLs`,
		head + "omitStages: [Late]\nrules: [{level: None}]":                     `omitStages[0]: Invalid value: "Late": allowed stages are RequestReceived,ResponseStarted,ResponseComplete,Panic`,
		head + "rules: [{level: None, omitStages: [None]}]":                     `rules[0].omitStages[0]: Invalid value: "None"`,
	} {
		_, _, err := ParsePolicy([]byte(text))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

// TestLenientPolicy checks that unknown fields are ignored with a warning.
func TestLenientPolicy(t *testing.T) {
	t.Parallel()
	const text = "apiVersion: audit.k8s.io/v1\nkind: Policy\nfuture: 1\nrules:\n- level: None\n  level: Metadata\n"
	policy, warnings, err := ParsePolicy([]byte(text))
	if err != nil || len(warnings) == 0 || policy.Rules[0].Level != LevelMetadata {
		t.Errorf("parse a policy with an unknown field: %+v, warnings %v, error %v", policy, warnings, err)
	}
}

// FuzzPolicy checks that a file is either rejected or parsed into a policy that can be evaluated.
func FuzzPolicy(f *testing.F) {
	f.Add([]byte(documented), "/api/x", "pods", "a")
	f.Add([]byte(`{"kind":"Policy","apiVersion":"audit.k8s.io/v1","rules":[{"level":"None","nonResourceURLs":["*","/**"]}]}`), "/", "*/*", "")
	f.Fuzz(func(t *testing.T, text []byte, path, resource, name string) {
		policy, _, err := ParsePolicy(text)
		if err != nil {
			return
		}
		rules := NewRules(policy)
		for _, a := range []authorizer.Attributes{
			{Path: path}, {User: &request.User{Name: name}, ResourceRequest: true, Resource: resource, Subresource: name, Name: name},
		} {
			if got := rules.Decide(&a); got.Level == "" {
				t.Errorf("the decision has no level: %+v", got)
			}
		}
	})
}
