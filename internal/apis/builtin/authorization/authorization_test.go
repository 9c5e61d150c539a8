package authorization

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/selection"

	"mainstay.dev/mainstay/internal/apis/builtin"
	"mainstay.dev/mainstay/internal/authorizer"
	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/request"
	"mainstay.dev/mainstay/internal/rest"
)

// review creates a review with the given body, as the user jane. It returns the status in the response, or the
// error.
func review(t *testing.T, env *builtin.Env, resource, body string) (status, problem string) {
	t.Helper()
	ctx := request.NewContext(t.Context(), &request.Info{}, time.Time{})
	request.SetUser(ctx, &request.User{Name: "jane"})
	resources, err := builtin.Build(env, []builtin.Group{V1()})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range resources {
		if r.Name != resource {
			continue
		}
		obj, err := r.Version.Decode([]byte(body), codec.JSON, true)
		if err != nil {
			t.Fatal(err)
		}
		record, err := r.Storage.(rest.Creater).Create(ctx, obj, nil, metav1.CreateOptions{})
		if err != nil {
			return "", err.Error()
		}
		answer, err := record.Object()
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(answer)
		if err != nil {
			t.Fatal(err)
		}
		var parts struct{ Status json.RawMessage }
		if err := json.Unmarshal(text, &parts); err != nil {
			t.Fatal(err)
		}
		return string(parts.Status), ""
	}
	t.Fatalf("resource %s does not exist", resource)
	return "", ""
}

// TestErrorsAsRecorded compares error messages with those recorded from kube-apiserver.
func TestErrorsAsRecorded(t *testing.T) {
	t.Parallel()
	const begin = `.authorization.k8s.io "" is invalid: `
	for _, test := range []struct{ resource, body, want string }{
		{"selfsubjectaccessreviews", `{"spec":{}}`,
			begin + `spec.resourceAttributes: Invalid value: null: exactly one of nonResourceAttributes or resourceAttributes must be specified`},
		{"selfsubjectaccessreviews", `{"spec":{"nonResourceAttributes":{"path":"/x","verb":"get"},"resourceAttributes":{"resource":"pods","verb":"get"}}}`,
			begin + `spec.nonResourceAttributes: Invalid value: {"Path":"/x","Verb":"get"}: cannot be specified in combination with resourceAttributes`},
		{"selfsubjectaccessreviews", `{"spec":{"resourceAttributes":{"labelSelector":{"rawSelector":"a=b","requirements":[{"key":"a","operator":"In","values":["b"]}]},"resource":"pods"}}}`,
			begin + `spec.resourceAttributes.labelSelector.rawSelector: Invalid value: "a=b": may not specified at the same time as requirements`},
		{"selfsubjectaccessreviews", `{"spec":{"resourceAttributes":{"fieldSelector":{},"resource":"pods"}}}`,
			begin + `spec.resourceAttributes.fieldSelector.requirements: Required value: when spec.resourceAttributes.fieldSelector is specified, requirements or rawSelector is required`},
		{"subjectaccessreviews", `{"spec":{"resourceAttributes":{"resource":"nodes","verb":"delete"}}}`,
			begin + `spec.user: Invalid value: "": at least one of user or group must be specified`},
		{"subjectaccessreviews", `{"metadata":{"name":"x"},"spec":{"user":"a","resourceAttributes":{"resource":"pods","verb":"get"}}}`,
			begin + `metadata: Invalid value: {"name":"x"}: must be empty`},
		{"localsubjectaccessreviews", `{"metadata":{"namespace":"a"},"spec":{"user":"ann","resourceAttributes":{"namespace":"other","resource":"pods","verb":"get"}}}`,
			begin + `spec.resourceAttributes.namespace: Invalid value: "other": must match metadata.namespace`},
		{"localsubjectaccessreviews", `{"metadata":{"namespace":"a"},"spec":{"user":"ann","nonResourceAttributes":{"path":"/x","verb":"get"}}}`,
			begin + `spec.nonResourceAttributes: Invalid value: {"Path":"/x","Verb":"get"}: disallowed on this kind of request`},
		{"localsubjectaccessreviews", `{"metadata":{"namespace":"a","name":"x"},"spec":{"user":"ann","resourceAttributes":{"namespace":"a"}}}`,
			begin + `metadata: Invalid value: {"name":"x","namespace":"a"}: must be empty except for namespace`},
		{"selfsubjectrulesreviews", `{"spec":{}}`, "no namespace on request"},
	} {
		if _, got := review(t, &builtin.Env{}, test.resource, test.body); got != test.want {
			t.Errorf("%s %s:\n%s, want\n%s", test.resource, test.body, got, test.want)
		}
	}
}

type authorizerFunc func(*authorizer.Attributes) (authorizer.Decision, string, error)

func (f authorizerFunc) Authorize(_ context.Context, a *authorizer.Attributes) (authorizer.Decision, string, error) {
	return f(a)
}

// TestAuthorizerRequests checks which attributes the authorizer receives for a review.
func TestAuthorizerRequests(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		resource, body string
		want           authorizer.Attributes
		status         string
	}{
		{"selfsubjectaccessreviews", `{"spec":{"nonResourceAttributes":{"path":"/healthz","verb":"get"}}}`,
			authorizer.Attributes{User: &request.User{Name: "jane"}, Verb: "get", Path: "/healthz"},
			`{"allowed":true,"reason":"because"}`},
		{"subjectaccessreviews", `{"spec":{"user":"ann","uid":"u","groups":["devs"],"extra":{"a":["b"]},"resourceAttributes":{"group":"apps","resource":"deployments","subresource":"scale","namespace":"n","name":"d","verb":"update"}}}`,
			authorizer.Attributes{
				User: &request.User{Name: "ann", UID: "u", Groups: []string{"devs"}, Extra: map[string][]string{"a": {"b"}}},
				Verb: "update", ResourceRequest: true, APIGroup: "apps", APIVersion: "*", Resource: "deployments", Subresource: "scale", Namespace: "n", Name: "d",
			}, `{"allowed":true,"reason":"because"}`},
		{"selfsubjectaccessreviews", `{"spec":{"resourceAttributes":{"resource":"pods","version":"v1","fieldSelector":{"rawSelector":"!!"}}}}`,
			authorizer.Attributes{User: &request.User{Name: "jane"}, ResourceRequest: true, APIVersion: "v1", Resource: "pods"},
			`{"allowed":true,"reason":"because","evaluationError":"spec.resourceAttributes.fieldSelector ignored due to parse error"}`},
		{"selfsubjectaccessreviews", `{"spec":{"resourceAttributes":{"resource":"pods","fieldSelector":{"requirements":[{"key":"a","operator":"In","values":["b"]},{"key":"c","operator":"Exists"}]}}}}`,
			authorizer.Attributes{
				User: &request.User{Name: "jane"}, ResourceRequest: true, APIVersion: "*", Resource: "pods",
				FieldSelectorRequirements: fields.Requirements{{Field: "a", Operator: selection.Equals, Value: "b"}},
			}, `{"allowed":true,"reason":"because","evaluationError":"spec.resourceAttributes.fieldSelector partially ignored due to parse error"}`},
	} {
		var got authorizer.Attributes
		env := &builtin.Env{Auth: builtin.Auth{Authorizer: authorizerFunc(func(attributes *authorizer.Attributes) (authorizer.Decision, string, error) {
			got = *attributes
			return authorizer.DecisionAllow, "because", nil
		})}}
		status, problem := review(t, env, test.resource, test.body)
		if unread := strings.Contains(test.status, "parse error"); (got.FieldSelectorParsingErr != nil) != unread {
			t.Errorf("%s: error %v", test.body, got.FieldSelectorParsingErr)
		}
		got.FieldSelectorParsingErr = nil
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s: %s\n%s", test.body, problem, diff)
		}
		if status != test.status {
			t.Errorf("%s: status %s, want %s", test.body, status, test.status)
		}
	}
}

func TestErrors(t *testing.T) {
	t.Parallel()
	env := &builtin.Env{Auth: builtin.Auth{Authorizer: authorizerFunc(func(*authorizer.Attributes) (authorizer.Decision, string, error) {
		return authorizer.DecisionDeny, "no", errors.New("webhook is gone")
	})}}
	got, _ := review(t, env, "selfsubjectaccessreviews", `{"spec":{"resourceAttributes":{"resource":"pods","labelSelector":{"rawSelector":"!!"}}}}`)
	want := `{"allowed":false,"denied":true,"reason":"no","evaluationError":"webhook is gone; spec.resourceAttributes.labelSelector ignored due to parse error"}`
	if got != want {
		t.Errorf("status %s, want %s", got, want)
	}
}

func TestRules(t *testing.T) {
	t.Parallel()
	env := &builtin.Env{Auth: builtin.Auth{UserRules: func(_ context.Context, user *request.User, namespace string) authorizationv1.SubjectRulesReviewStatus {
		return authorizationv1.SubjectRulesReviewStatus{EvaluationError: user.Name + " in " + namespace, Incomplete: true}
	}}}
	got, _ := review(t, env, "selfsubjectrulesreviews", `{"spec":{"namespace":"n"}}`)
	if want := `{"resourceRules":[],"nonResourceRules":[],"incomplete":true,"evaluationError":"jane in n"}`; got != want {
		t.Errorf("status %s, want %s", got, want)
	}
}

// TestErrorSize checks that the error for many invalid requirements is not larger than the request.
func TestErrorSize(t *testing.T) {
	t.Parallel()
	for _, selector := range []string{"fieldSelector", "labelSelector"} {
		body := `{"spec":{"resourceAttributes":{"verb":"get","` + selector + `":{"requirements":[{}` + strings.Repeat(`,{"operator":"In"}`, 100_000) + `]}}}}`
		_, problem := review(t, &builtin.Env{}, "selfsubjectaccessreviews", body)
		if problem == "" || len(problem) > len(body) {
			t.Errorf("%s: an error of %d bytes for a request of %d bytes", selector, len(problem), len(body))
		}
	}
}
