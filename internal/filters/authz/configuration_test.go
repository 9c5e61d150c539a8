package authz

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"mainstay.dev/mainstay/internal/authorizer"
	"mainstay.dev/mainstay/internal/request"
)

const head = "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthorizationConfiguration\n"

// kubeconfigFile returns the path of a kubeconfig for an unreachable webhook.
func kubeconfigFile(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	text := `{"current-context":"c","clusters":[{"name":"c","cluster":{"server":"https://127.0.0.1:1/authorize"}}],"users":[{"name":"u","user":{}}],"contexts":[{"name":"c","context":{"cluster":"c","user":"u"}}]}`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestConfiguration(t *testing.T) {
	t.Parallel()
	file := kubeconfigFile(t)
	hook := func(change string) string {
		w := fmt.Sprintf("authorizers:\n- {type: Webhook, name: h, webhook: {timeout: 3s, subjectAccessReviewVersion: v1, matchConditionSubjectAccessReviewVersion: v1, failurePolicy: Deny, connectionInfo: {type: KubeConfigFile, kubeConfigFile: %s}, matchConditions: [{expression: \"true\"}]}}\n", file)
		if from, to, ok := strings.Cut(change, " -> "); ok {
			w = strings.Replace(w, from, to, 1)
		}
		return w
	}
	for _, tt := range []struct{ text, want string }{
		{"authorizers: [{type: Node, name: node}, {type: RBAC, name: rbac}]", ""},
		{hook(""), ""},
		{hook("timeout: 3s, -> timeout: 3s, authorizedTTL: 1m, cacheUnauthorizedRequests: false,"), ""},
		{"authorizers: []", "authorizers: Required value: at least one authorization mode must be defined"},
		{"authorizers: [{name: x}]", "authorizers[0].type: Required value"},
		{"authorizers: [{type: Nope, name: x}]", `authorizers[0].type: Unsupported value: "Nope": supported values: "ABAC", "AlwaysAllow", "AlwaysDeny", "Node", "RBAC", "Webhook"`},
		{"authorizers: [{type: Node, name: x}, {type: Node, name: y}]", `authorizers[1].type: Duplicate value: "Node"`},
		{"authorizers: [{type: Node, name: x}, {type: RBAC, name: x}]", `authorizers[1].name: Duplicate value: "x"`},
		{"authorizers: [{type: Node}]", "authorizers[0].name: Required value"},
		{"authorizers: [{type: Node, name: A}]", "authorizer name is invalid"},
		{"authorizers: [{type: Webhook, name: h}]", "authorizers[0].webhook: Required value: required when type=Webhook"},
		{"authorizers: [{type: Node, name: n, webhook: {}}]", `authorizers[0].webhook: Invalid value: "non-null": may only be specified when type=Webhook`},
		{hook("timeout: 3s -> timeout: 31s"), `authorizers[0].timeout: Invalid value: "31s": must be > 0s and <= 30s`},
		{hook("timeout: 3s, -> "), "authorizers[0].timeout: Required value"},
		{hook("timeout: 3s, -> timeout: 3s, unauthorizedTTL: -1s,"), `authorizers[0].unauthorizedTTL: Invalid value: "-1s": must be > 0s`},
		{hook("AccessReviewVersion: v1, -> AccessReviewVersion: v2,"), `authorizers[0].subjectAccessReviewVersion: Unsupported value: "v2"`},
		{hook("matchConditionSubjectAccessReviewVersion: v1, -> "), "authorizers[0].matchConditionSubjectAccessReviewVersion: Required value: required if match conditions are specified"},
		{hook("failurePolicy: Deny -> failurePolicy: Open"), `authorizers[0].failurePolicy: Unsupported value: "Open"`},
		{hook("{type: KubeConfigFile, -> {type: InClusterConfig,"), `authorizers[0].connectionInfo.type: Unsupported value: "InClusterConfig"`},
		{hook("kubeConfigFile: / -> kubeConfigFile: "), "must be an absolute path"},
		{hook("kubeConfigFile: / -> kubeConfigFile: /nope/"), "error loading file"},
		{hook(`"true" -> "request.nope"`), "authorizers[0].matchConditions[0].expression: Invalid value"},
		{"authorizer: []", `unknown field "authorizer"`},
	} {
		c, err := ParseConfiguration([]byte(head + tt.text))
		if err == nil {
			_, err = c.Open(nil, nil)
		}
		if (err != nil) != (tt.want != "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.text, err, tt.want)
		}
	}
	if _, err := ParseConfiguration([]byte("apiVersion: v1\nkind: Pod")); err == nil {
		t.Error("a Pod was accepted as a configuration")
	}
}

// TestReloadableUnion checks that a new list of authorizers takes effect with the next request, and that
// decisions are counted.
func TestReloadableUnion(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	metrics, err := NewMetrics(registry)
	if err != nil {
		t.Fatal(err)
	}
	list := FromModes([]string{TypeAlwaysDeny, TypeRBAC})
	current := &list
	o := NewReloadableUnion(func() *[]NamedAuthorizer { return current }, map[string]authorizer.Authorizer{TypeRBAC: fixed{decision: authorizer.DecisionAllow}}, metrics)
	decide := func() authorizer.Decision {
		decision, _, _ := o.Authorize(context.Background(), &authorizer.Attributes{User: &request.User{Name: "jane"}})
		return decision
	}
	if got := decide(); got != authorizer.DecisionAllow {
		t.Error(got)
	}
	other := []NamedAuthorizer{{Type: TypeWebhook, Name: "w", Authorizer: fixed{decision: authorizer.DecisionDeny}}, {Type: TypeRBAC, Name: "rbac"}}
	current = &other
	if got := decide(); got != authorizer.DecisionDeny {
		t.Error(got)
	}
	absent := FromModes([]string{TypeNode, TypeAlwaysAllow})
	current = &absent
	if got := decide(); got != authorizer.DecisionDeny {
		t.Errorf("%s although an authorizer is missing", got)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	counted := map[string]float64{}
	for _, m := range families[0].GetMetric() {
		var labels []string
		for _, l := range m.GetLabel() {
			labels = append(labels, l.GetValue())
		}
		counted[strings.Join(labels, " ")] = m.GetCounter().GetValue()
	}
	if counted["allowed rbac RBAC"] != 1 || counted["denied w Webhook"] != 1 {
		t.Errorf("counted %v", counted)
	}
}

// FuzzConfiguration checks that no configuration file causes a panic.
func FuzzConfiguration(f *testing.F) {
	const head = "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthorizationConfiguration\n"
	f.Add(head + "authorizers: [{type: Node, name: node}, {type: RBAC, name: rbac}]")
	f.Add(head + "authorizers: [{type: Webhook, name: h, webhook: {timeout: 3s, connectionInfo: {type: KubeConfigFile}, matchConditions: [{expression: request.user == 'a'}]}}, null]")
	f.Fuzz(func(t *testing.T, text string) {
		c, err := ParseConfiguration([]byte(text))
		if err != nil {
			return
		}
		if list, err := c.Open(nil, nil); err == nil && len(list) != len(c.Authorizers) {
			t.Errorf("%d authorizers of %d", len(list), len(c.Authorizers))
		}
	})
}
