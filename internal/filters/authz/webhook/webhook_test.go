package webhook

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"mainstay.dev/mainstay/internal/authorizer"
	"mainstay.dev/mainstay/internal/request"
)

// webhookServer is a webhook with configurable responses. It records the last request.
type webhookServer struct {
	*httptest.Server
	calls       atomic.Int32
	answer      atomic.Pointer[any] // a status code, a body, or a channel to wait for
	then        atomic.Pointer[any] // the response from the second call on; nil repeats the first
	lastRequest atomic.Pointer[string]
}

func newWebhookServer(t *testing.T) *webhookServer {
	h := &webhookServer{}
	h.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.calls.Add(1)
		body, _ := io.ReadAll(r.Body)
		text := string(body)
		h.lastRequest.Store(&text)
		answer := h.answer.Load()
		if then := h.then.Load(); then != nil {
			h.answer.Store(then)
		}
		switch answer := (*answer).(type) {
		case int:
			w.WriteHeader(answer)
		case string:
			_, _ = io.WriteString(w, `{"status":`+answer+`}`)
		case chan struct{}:
			<-answer
		}
	}))
	t.Cleanup(h.Close)
	return h
}

func (h *webhookServer) respondWith(answer any) { h.answer.Store(&answer); h.calls.Store(0) }

func (h *webhookServer) authorizer(change func(*Config)) *Authorizer {
	c := Config{Name: "h", Client: h.Client(), URL: h.URL, Version: "v1", AllowedTTL: time.Hour, OtherTTL: time.Hour}
	if change != nil {
		change(&c)
	}
	return New(c)
}

func question() *authorizer.Attributes {
	return &authorizer.Attributes{
		User: &request.User{Name: "jane", UID: "u", Groups: []string{"devs"}, Extra: map[string][]string{"k": {"v"}}},
		Verb: "list", ResourceRequest: true, APIGroup: "apps", APIVersion: "v1", Namespace: "a", Resource: "deployments",
		FieldSelectorRequirements: fields.OneTermEqualSelector("metadata.name", "x").Requirements(),
	}
}

func TestAuthorize(t *testing.T) {
	t.Parallel()
	h := newWebhookServer(t)
	const allow, deny, none = authorizer.DecisionAllow, authorizer.DecisionDeny, authorizer.DecisionNoOpinion
	for _, tt := range []struct {
		name     string
		answer   any
		change   func(*Config)
		decision authorizer.Decision
		reason   string
		err      string
		calls    int32 // webhook calls for two requests
	}{
		{"allowed", `{"allowed":true,"reason":"friend"}`, nil, allow, "friend", "", 1},
		{"denied", `{"denied":true,"reason":"foe"}`, nil, deny, "foe", "", 1},
		{"no opinion", `{"allowed":false,"reason":"who?"}`, nil, none, "who?", "", 1},
		{"allowed and denied", `{"allowed":true,"denied":true}`, nil, deny, "", "returned both allow and deny", 1},
		{"allowed, not cached", `{"allowed":true}`, func(c *Config) { c.AllowedTTL = 0 }, allow, "", "", 2},
		{"denied, not cached", `{"denied":true}`, func(c *Config) { c.OtherTTL = 0 }, deny, "", "", 2},
		{"an error status", 403, nil, none, "", "403 Forbidden", 2},
		{"an error status with DenyOnError", 403, func(c *Config) { c.DenyOnError = true }, deny, "", "403 Forbidden", 2},
		{"nonsense", `x`, nil, none, "", "invalid character", 2},
	} {
		h.respondWith(tt.answer)
		w := h.authorizer(tt.change)
		for range 2 {
			decision, reason, err := w.Authorize(t.Context(), question())
			if decision != tt.decision || reason != tt.reason || (err != nil) != (tt.err != "") || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Errorf("%s: %s %q %v; want %s %q %q", tt.name, decision, reason, err, tt.decision, tt.reason, tt.err)
			}
		}
		if h.calls.Load() != tt.calls {
			t.Errorf("%s: %d calls, want %d", tt.name, h.calls.Load(), tt.calls)
		}
	}
}

// TestRetries checks that failed webhook calls are retried.
func TestRetries(t *testing.T) {
	t.Parallel()
	h := newWebhookServer(t)
	h.respondWith(503)
	recovered := any(`{"allowed":true}`)
	h.then.Store(&recovered)
	if decision, _, err := h.authorizer(nil).Authorize(t.Context(), question()); decision != authorizer.DecisionAllow || h.calls.Load() != 2 {
		t.Errorf("%s %v after %d calls", decision, err, h.calls.Load())
	}
}

// TestSlow checks that a timeout of the webhook has the same effect as an error.
func TestSlow(t *testing.T) {
	t.Parallel()
	h := newWebhookServer(t)
	never := make(chan struct{})
	t.Cleanup(func() { close(never) })
	h.respondWith(never)
	registry := prometheus.NewRegistry()
	metrics, err := NewMetrics(registry)
	if err != nil {
		t.Fatal(err)
	}
	w := h.authorizer(func(c *Config) { c.Timeout, c.Metrics = 10*time.Millisecond, metrics })
	if decision, _, err := w.Authorize(t.Context(), question()); decision != authorizer.DecisionNoOpinion || err == nil {
		t.Errorf("slow webhook: decision %s, error %v; want no opinion with an error", decision, err)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	counted := false
	for _, family := range families {
		if m := family.GetMetric()[0]; family.GetName() == "apiserver_authorization_webhook_evaluations_fail_open_total" {
			counted = m.GetCounter().GetValue() == 1 && m.GetLabel()[1].GetValue() == "timeout"
		}
	}
	if !counted {
		t.Error("the fail-open decision is not counted")
	}
}

// TestReviewRequest checks the request body that is sent to the webhook, in both API versions.
func TestReviewRequest(t *testing.T) {
	t.Parallel()
	h := newWebhookServer(t)
	h.respondWith(`{"allowed":true}`)
	selector, err := labels.Parse("a in (b),!c")
	if err != nil {
		t.Fatal(err)
	}
	list := question()
	list.LabelSelectorRequirements, _ = selector.Requirements()
	path := &authorizer.Attributes{User: &request.User{Name: "jane"}, Verb: "get", Path: "/metrics"}
	const resource = `"resourceAttributes":{"namespace":"a","verb":"list","group":"apps","version":"v1","resource":"deployments",` +
		`"fieldSelector":{"requirements":[{"key":"metadata.name","operator":"In","values":["x"]}]},"labelSelector":{"requirements":[{"key":"a","operator":"In","values":["b"]},{"key":"c","operator":"DoesNotExist"}]}}`
	for _, tt := range []struct {
		version     string
		lastRequest *authorizer.Attributes
		want        string
	}{
		{"v1", list, `{"kind":"SubjectAccessReview","apiVersion":"authorization.k8s.io/v1","spec":{` + resource + `,"user":"jane","groups":["devs"],"extra":{"k":["v"]},"uid":"u"}}`},
		{"v1beta1", list, `{"kind":"SubjectAccessReview","apiVersion":"authorization.k8s.io/v1beta1","spec":{` + resource + `,"user":"jane","group":["devs"],"extra":{"k":["v"]},"uid":"u"}}`},
		{"v1", path, `{"kind":"SubjectAccessReview","apiVersion":"authorization.k8s.io/v1","spec":{"nonResourceAttributes":{"path":"/metrics","verb":"get"},"user":"jane"}}`},
	} {
		if decision, _, err := h.authorizer(func(c *Config) { c.Version = tt.version }).Authorize(t.Context(), tt.lastRequest); decision != authorizer.DecisionAllow {
			t.Error(decision, err)
		}
		var got, want map[string]any
		if err := json.Unmarshal([]byte(*h.lastRequest.Load()), &got); err != nil {
			t.Fatal(err)
		}
		delete(got, "metadata")
		delete(got, "status")
		if err := json.Unmarshal([]byte(tt.want), &want); err != nil {
			t.Fatal(err)
		}
		gotText, _ := json.Marshal(got)
		wantText, _ := json.Marshal(want)
		if string(gotText) != string(wantText) {
			t.Errorf("%s:\n%s\nwant\n%s", tt.version, gotText, wantText)
		}
	}
}

func TestLargeRequestsNotCached(t *testing.T) {
	t.Parallel()
	h := newWebhookServer(t)
	h.respondWith(`{"allowed":true}`)
	w, large := h.authorizer(nil), question()
	large.Name = strings.Repeat("x", maxCacheableSize)
	for range 2 {
		if decision, _, err := w.Authorize(t.Context(), large); decision != authorizer.DecisionAllow {
			t.Error(decision, err)
		}
	}
	if h.calls.Load() != 2 {
		t.Errorf("%d calls, want 2", h.calls.Load())
	}
}

func TestConditions(t *testing.T) {
	t.Parallel()
	h := newWebhookServer(t)
	h.respondWith(`{"allowed":true}`)
	for _, tt := range []struct {
		conditions []string
		decision   authorizer.Decision
		err        string
	}{
		{nil, authorizer.DecisionAllow, ""},
		{[]string{"has(request.resourceAttributes)", "request.resourceAttributes.namespace == 'a'", "'devs' in request.groups", "request.extra['k'][0] == 'v'"}, authorizer.DecisionAllow, ""},
		{[]string{"request.resourceAttributes.fieldSelector.requirements.exists(r, r.key == 'metadata.name' && r.operator == 'In' && 'x' in r.values)"}, authorizer.DecisionAllow, ""},
		{[]string{"has(request.nonResourceAttributes)"}, authorizer.DecisionNoOpinion, ""},
		{[]string{"request.nonResourceAttributes.path == '/'"}, authorizer.DecisionDeny, "resulted in error"},
		{[]string{"request.nonResourceAttributes.path == '/'", "request.user == 'joe'"}, authorizer.DecisionNoOpinion, ""},
	} {
		conditions, errs := NewConditions(tt.conditions, field.NewPath("matchConditions"))
		if len(errs) > 0 {
			t.Fatal(errs)
		}
		decision, _, err := h.authorizer(func(c *Config) { c.Conditions, c.DenyOnError = conditions, true }).Authorize(t.Context(), question())
		if decision != tt.decision || (err != nil) != (tt.err != "") || err != nil && !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%q: %s %v; want %s %q", tt.conditions, decision, err, tt.decision, tt.err)
		}
	}
}

func TestInvalidConditions(t *testing.T) {
	t.Parallel()
	for want, texts := range map[string][]string{
		"matchConditions[0].expression: Required value":             {" "},
		`matchConditions[1].expression: Duplicate value: "true"`:    {"true", "true"},
		"must evaluate to bool but got string":                      {"request.user"},
		"undefined field 'nope'":                                    {"request.nope == ''"},
		"undeclared reference to 'user'":                            {"user == ''"},
		"types of the expression are nested too deeply":             {strings.Repeat("[", 200) + "request.user" + strings.Repeat("]", 200) + ".size() == 1"},
		"matchConditions: Too many: 65: must have at most 64 items": make([]string, 65),
	} {
		if _, errs := NewConditions(texts, field.NewPath("matchConditions")); len(errs) != 1 || !strings.Contains(errs[0].Error(), want) {
			t.Errorf("%q: %v, want %q", texts, errs, want)
		}
	}
}
