package audit

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func fullEvent() *Event {
	return &Event{
		Level: LevelRequestResponse, AuditID: "id", Stage: StageResponseComplete, RequestURI: "/api/v1/pods?a=b&c=<d>", Verb: "create",
		User:                   User{Username: "jane", UID: "u", Groups: []string{"a", "b"}, Extra: map[string][]string{"z": {"1", "2"}, "a": nil, "m": {}}},
		ImpersonatedUser:       &User{Username: "\"quoted\"\n", Groups: []string{}},
		AuthenticationMetadata: &AuthenticationMetadata{ImpersonationConstraint: "impersonate:user-info"},
		SourceIPs:              []string{"10.0.0.1", "::1"}, UserAgent: "kubectl/v1 (\xff\u2028)",
		ObjectRef:      &ObjectReference{"pods", "a", "x", "uid", "apps", "v1", "12", "status"},
		ResponseStatus: &metav1.Status{Code: 404, Status: "Failure", Reason: "NotFound", Message: "<none>", Details: &metav1.StatusDetails{Name: "x", Causes: []metav1.StatusCause{{Field: "f"}}}},
		RequestObject:  Body([]byte(` { "a" : "b&\u003c" } `)), ResponseObject: Body([]byte("[1]\n")),
		RequestReceivedTimestamp: metav1.NewMicroTime(time.Date(2026, 1, 2, 3, 4, 5, 6789, time.FixedZone("", 3600))),
		StageTimestamp:           metav1.NewMicroTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)),
		Annotations:              map[string]string{"b/2": "", "a/1": "x\ty"},
	}
}

// checkEncoding compares the encoding of an event with the output of encoding/json.
func checkEncoding(t *testing.T, event *Event) {
	t.Helper()
	marked := *event
	marked.Kind, marked.APIVersion = "Event", APIVersion
	want, err := json.Marshal(&marked)
	if err != nil {
		t.Fatal(err)
	}
	line := string(encode(nil, event).line)
	if line != string(want)+"\n" {
		t.Errorf("encoded\n%s, want\n%s", line, want)
	}
	if strings.Count(line, "\n") != 1 || !utf8.ValidString(line) {
		t.Errorf("the encoding is not a single line of valid UTF-8: %q", line)
	}
	var back Event
	if err := json.Unmarshal([]byte(line), &back); err != nil {
		t.Error(err)
	}
}

func TestEncoding(t *testing.T) {
	t.Parallel()
	checkEncoding(t, fullEvent())
	checkEncoding(t, &Event{})
	checkEncoding(t, &Event{ResponseStatus: &metav1.Status{Code: 200}, ObjectRef: &ObjectReference{}, AuthenticationMetadata: &AuthenticationMetadata{}})
	checkEncoding(t, &Event{ResponseStatus: &metav1.Status{}})
}

// TestEventOfDocumentation checks the exact encoding of an event, including the order of its fields.
func TestEventOfDocumentation(t *testing.T) {
	t.Parallel()
	at := metav1.NewMicroTime(time.Date(2026, 1, 2, 3, 4, 5, 678900000, time.UTC))
	event := &Event{
		Level: LevelMetadata, AuditID: "4bf382d8", Stage: StageResponseComplete, RequestURI: "/api/v1/namespaces?limit=500", Verb: "list",
		User: User{Username: "jane", Groups: []string{"dev"}}, SourceIPs: []string{"127.0.0.1"}, UserAgent: "kubectl",
		ObjectRef: &ObjectReference{Resource: "namespaces", APIVersion: "v1"}, ResponseStatus: &metav1.Status{Code: 200},
		RequestReceivedTimestamp: at, StageTimestamp: at, Annotations: map[string]string{"authorization.k8s.io/decision": "allow"},
	}
	const want = `{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Metadata","auditID":"4bf382d8","stage":"ResponseComplete",` +
		`"requestURI":"/api/v1/namespaces?limit=500","verb":"list","user":{"username":"jane","groups":["dev"]},"sourceIPs":["127.0.0.1"],` +
		`"userAgent":"kubectl","objectRef":{"resource":"namespaces","apiVersion":"v1"},"responseStatus":{"metadata":{},"code":200},` +
		`"requestReceivedTimestamp":"2026-01-02T03:04:05.678900Z","stageTimestamp":"2026-01-02T03:04:05.678900Z",` +
		`"annotations":{"authorization.k8s.io/decision":"allow"}}` + "\n"
	if got := string(encode(nil, event).line); got != want {
		t.Errorf("%s, want\n%s", got, want)
	}
	const legacy = `2026-01-02T03:04:05.6789Z AUDIT: id="4bf382d8" stage="ResponseComplete" ip="127.0.0.1" method="list" user="jane" groups="\"dev\"" ` +
		`as="<self>" asgroups="<lookup>" user-agent="kubectl" namespace="<none>" uri="/api/v1/namespaces?limit=500" response="200"`
	if got := string(AppendLegacy(nil, event)); got != legacy {
		t.Errorf("%s, want\n%s", got, legacy)
	}
}

// TestBody checks that invalid JSON is omitted, and that valid JSON is encoded on a single line.
func TestBody(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"": "", "{": "", "\"a\nb\"": "", "{}{}": "", "{ }\n": "{}", "\"\xff\"": "\"\ufffd\"", " [ 1 , 2 ] ": "[1,2]",
	} {
		if got := string(Body([]byte(text))); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// FuzzEvent checks that values chosen by clients, such as names, paths and bodies, cannot break the
// encoding of a line.
func FuzzEvent(f *testing.F) {
	f.Add("/api", "jane\n{}", "a\",\"b", "kubectl\xff", "{\"a\":\"b\"}", "\u2028")
	f.Fuzz(func(t *testing.T, uri, user, name, agent, body, annotation string) {
		event := fullEvent()
		event.RequestURI, event.User.Username, event.ObjectRef.Name, event.UserAgent = uri, user, name, agent
		event.User.Extra = map[string][]string{user: {name}}
		event.RequestObject, event.ResponseObject = Body([]byte(body)), Body([]byte(`{"x":`+body+`}`))
		event.Annotations = map[string]string{"a/b": annotation}
		checkEncoding(t, event)
		if legacy := AppendLegacy(nil, event); strings.Contains(string(legacy), "\n") {
			t.Errorf("more than one line: %q", legacy)
		}
	})
}

func BenchmarkEncode(b *testing.B) {
	event := fullEvent()
	event.RequestObject, event.ResponseObject, event.ImpersonatedUser, event.AuthenticationMetadata = nil, nil, nil, nil
	event.ResponseStatus, event.UserAgent, event.RequestURI = &metav1.Status{Code: 200}, "kubectl", "/api/v1/pods"
	event.Annotations = map[string]string{"authorization.k8s.io/decision": "allow", "authorization.k8s.io/reason": ""}
	var buffer []byte
	b.ReportAllocs()
	for b.Loop() {
		buffer = encode(buffer[:0], event).line
	}
}
