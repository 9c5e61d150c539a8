package filters

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mainstay.dev/mainstay/internal/authorizer"
	"mainstay.dev/mainstay/internal/filters/audit"
	"mainstay.dev/mainstay/internal/filters/authz"
	"mainstay.dev/mainstay/internal/request"
)

// auditTo returns the configuration of the filters for a policy with the given rules, and a
// function that reads the recorded events.
func auditTo(t testing.TB, rules string, change func(*audit.Options)) (*AuditConfig, func() []audit.Event) {
	t.Helper()
	dir := t.TempDir()
	options := audit.NewOptions()
	options.PolicyFile, options.Log.Path = filepath.Join(dir, "policy.yaml"), filepath.Join(dir, "audit.log")
	if change != nil {
		change(&options)
	}
	if err := os.WriteFile(options.PolicyFile, []byte("apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: "+rules), 0o600); err != nil {
		t.Fatal(err)
	}
	metrics, err := audit.NewMetrics(prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	policy, sink, err := audit.Open(audit.Config{Options: options, Metrics: metrics, Logger: quiet(), FlushTimeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- sink.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-ended })
	return &AuditConfig{Rules: policy, Sink: sink, OnError: writeError}, func() []audit.Event {
		text, err := os.ReadFile(options.Log.Path)
		if err != nil {
			t.Fatal(err)
		}
		var events []audit.Event
		for line := range strings.Lines(string(text)) {
			var event audit.Event
			if err := json.Unmarshal([]byte(line), &event); err != nil {
				t.Fatal(err)
			}
			events = append(events, event)
		}
		return events
	}
}

func stagesOf(events []audit.Event) string {
	var stages []string
	for _, e := range events {
		stages = append(stages, string(e.Stage))
	}
	return strings.Join(stages, " ")
}

// TestAuditEvent checks all fields of an event.
func TestAuditEvent(t *testing.T) {
	t.Parallel()
	config, events := auditTo(t, "[{level: RequestResponse}]", nil)
	jane := &request.User{Name: "jane", UID: "1", Groups: []string{"dev"}, Extra: map[string][]string{"a": {"b"}}}
	r := httptest.NewRequest("POST", "/apis/apps/v1/namespaces/a/deployments?dryRun=All", nil)
	r.Header.Set("X-Forwarded-For", "10.0.0.1, nonsense, 10.0.0.2")
	r.Header.Set("X-Real-Ip", "10.0.0.3")
	r.Header.Set("Audit-Id", "mine")
	r.Header.Set("User-Agent", strings.Repeat("x", 2000))
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a := request.AuditFrom(r.Context())
		if !a.RecordsRequestBody() || !a.RecordsResponseBody() || a.OmitManagedFields {
			t.Errorf("the Audit of the request does not record both bodies with managed fields: %+v", a)
		}
		a.SetObject(request.AuditObject{Namespace: "other", Name: "x", UID: "uid", ResourceVersion: "7"})
		a.SetRequestBody([]byte(`{ "a": 1 }`))
		a.SetResponseBody([]byte(`{}`))
		a.SetResponseStatus(&metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status"}, Status: "Failure", Code: 1, Reason: "Conflict"})
		_ = request.Annotate(r.Context(), "a/b", "c")
		w.WriteHeader(http.StatusConflict)
	})
	impersonate := func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			request.SetImpersonation(r.Context(), &request.Impersonation{User: &request.User{Name: "joe"}, Constraint: "impersonate:user-info"})
			next.ServeHTTP(w, r)
		})
	}
	get(t, handler, r, AuditInit(config), as(jane), Audit(config), impersonate, Authorize(authz.Union{}, nil, quiet(), writeError))
	get(t, handler, r, AuditInit(config), as(jane), Audit(config), impersonate)
	got := events()
	if stagesOf(got) != "RequestReceived ResponseComplete RequestReceived ResponseComplete" {
		t.Fatal(stagesOf(got))
	}
	if got[1].Annotations["authorization.k8s.io/decision"] != "forbid" || got[1].ResponseStatus.Code != 403 {
		t.Errorf("rejected: %+v", got[1])
	}
	first, last := got[2], got[3]
	if !first.StageTimestamp.Equal(&first.RequestReceivedTimestamp) || last.StageTimestamp.IsZero() {
		t.Errorf("times: %v, %v, %v", first.RequestReceivedTimestamp, first.StageTimestamp, last.StageTimestamp)
	}
	want := audit.Event{
		TypeMeta: metav1.TypeMeta{Kind: "Event", APIVersion: "audit.k8s.io/v1"},
		Level:    audit.LevelRequestResponse, AuditID: "mine", Stage: audit.StageRequestReceived,
		RequestURI: "/apis/apps/v1/namespaces/a/deployments?dryRun=All", Verb: "create",
		User:      audit.User{Username: "jane", UID: "1", Groups: []string{"dev"}, Extra: map[string][]string{"a": {"b"}}},
		SourceIPs: []string{"10.0.0.1", "10.0.0.2", "10.0.0.3", "192.0.2.1"}, UserAgent: strings.Repeat("x", 1024) + "...TRUNCATED",
		ObjectRef:                &audit.ObjectReference{Resource: "deployments", Namespace: "a", APIGroup: "apps", APIVersion: "v1"},
		RequestReceivedTimestamp: first.RequestReceivedTimestamp, StageTimestamp: first.StageTimestamp,
	}
	if diff := cmp.Diff(want, first); diff != "" {
		t.Errorf("received (-want +got):\n%s", diff)
	}
	want.Stage, want.StageTimestamp = audit.StageResponseComplete, last.StageTimestamp
	want.ImpersonatedUser = &audit.User{Username: "joe"}
	want.AuthenticationMetadata = &audit.AuthenticationMetadata{ImpersonationConstraint: "impersonate:user-info"}
	want.ObjectRef = &audit.ObjectReference{Resource: "deployments", Namespace: "a", Name: "x", UID: "uid", ResourceVersion: "7", APIGroup: "apps", APIVersion: "v1"}
	want.RequestObject, want.ResponseObject = json.RawMessage(`{"a":1}`), json.RawMessage(`{}`)
	want.ResponseStatus = &metav1.Status{Status: "Failure", Reason: "Conflict", Code: http.StatusConflict}
	want.Annotations = map[string]string{"a/b": "c"}
	if diff := cmp.Diff(want, last); diff != "" {
		t.Errorf("complete (-want +got):\n%s", diff)
	}
}

// TestAuditStages checks the recorded stages of requests that end in different ways.
func TestAuditStages(t *testing.T) {
	t.Parallel()
	jane := &request.User{Name: "jane"}
	for name, test := range map[string]struct {
		rules, path string
		handler     http.HandlerFunc
		stages      string
		code        int32
		message     string
	}{
		"nothing": {"[{level: None}]", "/", func(w http.ResponseWriter, r *http.Request) {
			if request.Annotate(r.Context(), "a/b", "c") != nil || request.AnnotationsFrom(r.Context()) != nil {
				t.Error("Annotate recorded an annotation of a request without auditing, or returned an error")
			}
		}, "", 0, ""},
		"an omitted stage": {"[{level: Metadata, omitStages: [RequestReceived]}]", "/", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(201) }, "ResponseComplete", 201, ""},
		"no response":      {"[{level: Metadata}]", "/", func(http.ResponseWriter, *http.Request) {}, "RequestReceived ResponseComplete", 200, "Connection closed early"},
		"a watch": {"[{level: Metadata}]", "/api/v1/pods?watch=1", func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(200)
			request.Release(r)
		}, "RequestReceived ResponseStarted ResponseComplete", 200, ""},
		"a watch without events": {"[{level: Metadata}]", "/api/v1/pods?watch=1", func(http.ResponseWriter, *http.Request) {},
			"RequestReceived ResponseStarted ResponseComplete", 200, "Connection closed early"},
		"an aborted response": {"[{level: Metadata}]", "/", func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(206)
			panic(http.ErrAbortHandler)
		}, "RequestReceived ResponseComplete", 206, ""},
		"a panic": {"[{level: Metadata}]", "/", func(http.ResponseWriter, *http.Request) { panic("help") }, "RequestReceived Panic", 500, "APIServer panic'd: help"},
	} {
		config, events := auditTo(t, test.rules, nil)
		func() {
			defer func() { _ = recover() }() // the server handles http.ErrAbortHandler
			get(t, test.handler, httptest.NewRequest("GET", test.path, nil), Recover(quiet(), writeError), AuditInit(config), as(jane), Audit(config))
		}()
		got := events()
		if stagesOf(got) != test.stages {
			t.Errorf("%s: %s, want %s", name, stagesOf(got), test.stages)
			continue
		}
		if len(got) == 0 {
			continue
		}
		if status := got[len(got)-1].ResponseStatus; status.Code != test.code || status.Message != test.message {
			t.Errorf("%s: response status %+v, want %d %q", name, status, test.code, test.message)
		}
	}
}

// TestAuditTimeout checks that a request without a response at its deadline is recorded with the
// response that Deadline sends.
func TestAuditTimeout(t *testing.T) {
	t.Parallel()
	config, events := auditTo(t, "[{level: Metadata}]", nil)
	w := get(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }), httptest.NewRequest("GET", "/?timeout=1ms", nil),
		AuditInit(config), Deadline(DeadlineConfig{Max: time.Minute, Logger: quiet(), OnError: writeError}), Audit(config))
	if got := events(); w.Code != 504 || stagesOf(got) != "RequestReceived ResponseComplete" || got[1].ResponseStatus.Code != 504 {
		t.Errorf("expired request: code %d, events %+v", w.Code, got)
	}
}

// TestAuditRejected checks that a request that is rejected before authentication is recorded as
// one event.
func TestAuditRejected(t *testing.T) {
	t.Parallel()
	config, events := auditTo(t, "[{level: None, users: [jane]}, {level: Metadata}]", nil)
	refuse := func(w http.ResponseWriter, r *http.Request) { config.AuditErrors(writeError)(w, r, errors.New("no")) }
	get(t, http.HandlerFunc(refuse), httptest.NewRequest("GET", "/", nil), AuditInit(config))
	get(t, http.HandlerFunc(refuse), httptest.NewRequest("GET", "/", nil), AuditInit(config), as(&request.User{Name: "jane"}))
	if got := events(); stagesOf(got) != "ResponseStarted" || got[0].ResponseStatus.Code != 500 || got[0].User.Username != "" {
		t.Errorf("events %+v, want ResponseStarted with code 500", got)
	}
}

// TestAuditStrict checks that a request is rejected if its RequestReceived stage cannot be
// recorded, but not if only a later stage cannot be recorded.
func TestAuditStrict(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip("there is no /dev/full")
	}
	for omitted, want := range map[string]int{"": 500, "RequestReceived": 200} {
		for mode, code := range map[string]int{audit.ModeBlocking: 200, audit.ModeBlockingStrict: want} {
			config, _ := auditTo(t, "[{level: Metadata, omitStages: ["+omitted+"]}]", func(o *audit.Options) {
				o.Log.Path, o.Log.Mode, o.Log.MaxSize = "/dev/full", mode, 0
			})
			if w := get(t, answer(200, ""), httptest.NewRequest("GET", "/", nil), AuditInit(config), Audit(config)); w.Code != code {
				t.Errorf("%s without %q: %d %s", mode, omitted, w.Code, w.Body)
			}
		}
	}
}

// TestSourceIPs checks that the number of addresses is limited, and that the last one is the
// address of the connection.
func TestSourceIPs(t *testing.T) {
	t.Parallel()
	r := httptest.NewRequest("GET", "/", nil)
	r.Header.Set("X-Forwarded-For", strings.Repeat("10.0.0.1,", 1000))
	if got := sourceIPs(r); len(got) != maxSourceIPs || got[len(got)-1] != "192.0.2.1" {
		t.Errorf("%d source IPs %v, want %d with 192.0.2.1 at the end", len(got), got, maxSourceIPs)
	}
}

// BenchmarkAudit is like BenchmarkChain, with different audit policies: no auditing, level None, and level
// Metadata with one or two events per request. The events are written to a file.
func BenchmarkAudit(b *testing.B) {
	user := &request.User{Name: "kubernetes-admin", Groups: []string{request.GroupMasters, request.GroupAuthenticated}}
	final := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(200) })
	allow := authz.Union{authz.Masters{}}
	for _, test := range []struct{ name, rules string }{
		{"off", ""}, {"None", "[{level: None}]"},
		{"Metadata", "[{level: Metadata, omitStages: [RequestReceived]}]"}, {"MetadataTwice", "[{level: Metadata}]"},
	} {
		b.Run(test.name, func(b *testing.B) {
			var config *AuditConfig
			if test.rules != "" {
				config, _ = auditTo(b, test.rules, nil)
			}
			chain := Chain(final, AuditID, Recover(quiet(), writeError), RequestInfo(byName, writeError), AuditInit(config), as(user), Audit(config),
				Authorize(authorizer.Authorizer(allow), nil, quiet(), writeError))
			r := httptest.NewRequest("GET", "/api/v1/namespaces/a/configmaps/x", nil)
			r.Header.Set("User-Agent", "kubectl/v1.37.0 (linux/amd64) kubernetes/4cb5f07")
			b.ReportAllocs()
			for b.Loop() {
				chain.ServeHTTP(discard{http.Header{}}, r)
			}
		})
	}
}
