package host

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"

	"mainstay.dev/mainstay/internal/controlplane"
	"mainstay.dev/mainstay/test/testserver"
)

// accessWebhook starts a webhook that responds with the result of decide, and returns the path of a kubeconfig
// for the webhook.
func accessWebhook(t *testing.T, decide func(*authorizationv1.SubjectAccessReviewSpec) authorizationv1.SubjectAccessReviewStatus) string {
	t.Helper()
	webhook := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var review authorizationv1.SubjectAccessReview
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			t.Error(err)
		}
		review.Status = decide(&review.Spec)
		_ = json.NewEncoder(w).Encode(review)
	}))
	t.Cleanup(webhook.Close)
	return writeFile(t, "kubeconfig", fmt.Sprintf(`
current-context: w
contexts: [{name: w, context: {cluster: w, user: w}}]
clusters: [{name: w, cluster: {server: %q}}]
users: [{name: w, user: {token: mine}}]
`, webhook.URL))
}

// withToken returns the status code of a GET request with a bearer token.
func withToken(t *testing.T, s *running, token, path string) string {
	t.Helper()
	code, _, _ := strings.Cut(exchange(t, client(t, nil), "GET", s.URL+path, "", nil, "Authorization", "Bearer "+token), " ")
	return code
}

func tokens(t *testing.T) string { return writeFile(t, "tokens", "jane,jane,1\njoe,joe,2\n") }

func TestWebhookAndPolicies(t *testing.T) {
	t.Parallel()
	kubeconfig := accessWebhook(t, func(spec *authorizationv1.SubjectAccessReviewSpec) authorizationv1.SubjectAccessReviewStatus {
		return authorizationv1.SubjectAccessReviewStatus{Allowed: spec.User == "jane", Denied: spec.User == "joe" && spec.ResourceAttributes != nil}
	})
	policies := writeFile(t, "policies", `{"user":"joe","readonly":true}`+"\n")
	s := start(t, Config{
		ControlPlane:   controlplane.Options{Authorization: controlplane.AuthorizationOptions{Modes: []string{"Webhook", "ABAC"}}},
		Authentication: AuthenticationConfig{TokenFile: TokenFileConfig{File: tokens(t)}},
		Authorization:  AuthorizationConfig{WebhookConfigFile: kubeconfig, WebhookVersion: "v1", PolicyFile: policies},
	})
	for question, want := range map[string]string{
		"jane /api/v1/pods": "200", "joe /api/v1/pods": "403", "joe /version": "200", // decided by the webhook, the webhook and the policy
	} {
		token, path, _ := strings.Cut(question, " ")
		if got := withToken(t, s, token, path); got != want {
			t.Errorf("%s: %s, want %s", question, got, want)
		}
	}
}

// TestAuthorizationConfig checks that the file determines the authorizers, and that a changed file takes
// effect if it is valid.
func TestAuthorizationConfig(t *testing.T) {
	t.Parallel()
	kubeconfig := accessWebhook(t, func(spec *authorizationv1.SubjectAccessReviewSpec) authorizationv1.SubjectAccessReviewStatus {
		return authorizationv1.SubjectAccessReviewStatus{Allowed: true}
	})
	text := func(user string, others ...string) string {
		return fmt.Sprintf(`
apiVersion: apiserver.config.k8s.io/v1
kind: AuthorizationConfiguration
authorizers:
- type: Webhook
  name: by-name
  webhook:
    timeout: 3s
    subjectAccessReviewVersion: v1
    matchConditionSubjectAccessReviewVersion: v1
    failurePolicy: Deny
    connectionInfo: {type: KubeConfigFile, kubeConfigFile: %s}
    matchConditions: [{expression: request.user == '%s'}]
%s`, kubeconfig, user, strings.Join(others, "\n"))
	}
	const rbac = "- {type: RBAC, name: rbac}"
	file := writeFile(t, "config.yaml", text("jane", rbac))
	s := start(t, Config{Authorization: AuthorizationConfig{ConfigFile: file}, Authentication: AuthenticationConfig{TokenFile: TokenFileConfig{File: tokens(t)}}})
	who := func() string {
		return withToken(t, s, "jane", "/api/v1/pods") + " " + withToken(t, s, "joe", "/api/v1/pods")
	}
	if got := who(); got != "200 403" {
		t.Fatal(got)
	}
	reloaded := func(metric string) error {
		_, metrics := fetch(t, s.admin, s.URL+"/metrics")
		if !strings.Contains(metrics, "apiserver_authorization_config_controller_automatic_reloads_total{"+ofThisServer(t)+metric) {
			return fmt.Errorf("no reload is counted with %s", metric)
		}
		return nil
	}
	for _, step := range []struct{ text, who, metric string }{
		{"nonsense", "200 403", `status="failure"} 1`},
		{text("joe", rbac, "- {type: Node, name: node}"), "200 403", `status="failure"} `}, // Node was not configured at startup
		{text("joe", rbac), "403 200", `status="success"} 1`},
	} {
		if err := os.WriteFile(file, []byte(step.text), 0o600); err != nil {
			t.Fatal(err)
		}
		testserver.Eventually(t, time.Minute, func() error { return reloaded(step.metric) })
		if got := who(); got != step.who {
			t.Errorf("%s: %s, want %s", step.text, got, step.who)
		}
	}
	_, metrics := fetch(t, s.admin, s.URL+"/metrics")
	for _, want := range []string{
		`apiserver_authorization_decisions_total{decision="allowed",name="by-name",type="Webhook"}`,
		`apiserver_authorization_match_condition_exclusions_total{name="by-name",type="Webhook"}`,
		`apiserver_authorization_webhook_evaluations_total{name="by-name",result="success"}`,
	} {
		if !strings.Contains(metrics, want) {
			t.Errorf("the metrics do not contain %s", want)
		}
	}
}
