package abac

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"

	"mainstay.dev/mainstay/internal/authorizer"
	"mainstay.dev/mainstay/internal/request"
)

const lines = `
# examples from kube-apiserver's documentation, and lines without a version
{"apiVersion":"abac.authorization.kubernetes.io/v1beta1","kind":"Policy","spec":{"user":"alice","namespace":"*","resource":"*","apiGroup":"*"}}
{"apiVersion":"abac.authorization.kubernetes.io/v1beta1","kind":"Policy","spec":{"user":"bob","namespace":"projectCaribou","resource":"pods","readonly":true}}
{"apiVersion":"abac.authorization.kubernetes.io/v1beta1","kind":"Policy","spec":{"group":"*","readonly":true,"nonResourcePath":"/version*"}}
{"apiVersion":"abac.authorization.kubernetes.io/v1beta1","kind":"Policy","spec":{"namespace":"*","resource":"*","apiGroup":"*"}}
{"user":"carol","namespace":"a"}
{"group":"admins"}
{"user":"dave","group":"devs","resource":"pods"}
`

func TestAuthorize(t *testing.T) {
	t.Parallel()
	policies, err := Parse([]byte(lines))
	if err != nil {
		t.Fatal(err)
	}
	for question, want := range map[string]bool{
		"alice delete apps a deployments": true, "alice get /healthz": false,
		"bob get - projectCaribou pods": true, "bob watch - projectCaribou pods": true, "bob delete - projectCaribou pods": false, "bob get - a pods": false,
		"bob get - projectCaribou secrets": false, "bob get apps projectCaribou pods": false,
		"eve get /version": true, "eve get /version/x": true, "eve post /version": false, "eve get /": false, "eve get - a pods": false,
		"carol delete apps a x": true, "carol get - b pods": false, "carol get /x": false,
		"zoe+admins delete - a x": true, "zoe+admins post /x": true,
		"dave+devs delete - a pods": true, "dave delete - a pods": false, "zoe+devs delete - a pods": false,
	} {
		words := strings.Fields(question)
		name, group, _ := strings.Cut(words[0], "+")
		a := authorizer.Attributes{User: &request.User{Name: name, Groups: []string{request.GroupAuthenticated, group}}, Verb: words[1]}
		if len(words) == 3 {
			a.Path = words[2]
		} else {
			a.ResourceRequest, a.APIGroup, a.Namespace, a.Resource = true, strings.TrimPrefix(words[2], "-"), words[3], words[4]
		}
		decision, reason, err := policies.Authorize(t.Context(), &a)
		if (decision == authorizer.DecisionAllow) != want || err != nil || !want && (decision != authorizer.DecisionNoOpinion || reason != "No policy matched.") {
			t.Errorf("%s: decision %s, reason %q, error %v; want allowed: %t", question, decision, reason, err, want)
		}
	}
	if decision, _, _ := policies.Authorize(t.Context(), &authorizer.Attributes{Verb: "get", Path: "/version"}); decision == authorizer.DecisionAllow {
		t.Error("a request without a user is allowed")
	}
	want := []rbacv1.PolicyRule{{Verbs: []string{"get", "list", "watch"}, APIGroups: []string{""}, Resources: []string{"pods"}}}
	if diff := cmp.Diff(want, policies.Rules(&request.User{Name: "bob"}, "projectCaribou")); diff != "" {
		t.Errorf("rules (-want +got):\n%s", diff)
	}
}

func TestParse(t *testing.T) {
	t.Parallel()
	if policies, err := Parse([]byte("\n# nothing\n")); policies == nil || err != nil {
		t.Errorf("an empty file: %v, %v", policies, err)
	}
	for text, want := range map[string]string{
		"\n{":                              "line 2: unexpected end of JSON input",
		`{"apiVersion":"v1","kind":"Pod"}`: "line 1: it is a Pod of v1",
		`{"apiVersion":"abac.authorization.kubernetes.io/v1beta1","kind":"Policy"}`: "line 1: spec is missing",
	} {
		if _, err := Parse([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}
