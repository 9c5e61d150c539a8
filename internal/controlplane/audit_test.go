package controlplane

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/controllers/clusterroles"
	"mainstay.dev/mainstay/internal/filters/audit"
)

// auditedPlane is a control plane with an audit log.
type auditedPlane struct {
	*ControlPlane
	log  string
	seen int // number of processed lines
}

func newAuditedPlane(t *testing.T, policy string, controllers ...string) *auditedPlane {
	t.Helper()
	dir := t.TempDir()
	options := Options{Audit: audit.NewOptions(), Controllers: ControllerOptions{Names: append(controllers, clusterroles.Name)}} // other controllers would write at any time
	options.Audit.PolicyFile, options.Audit.Log.Path = filepath.Join(dir, "policy.yaml"), filepath.Join(dir, "audit.log")
	if err := os.WriteFile(options.Audit.PolicyFile, []byte("apiVersion: audit.k8s.io/v1\nkind: Policy\n"+policy), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := New(newEnv(t), "/registry", options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return &auditedPlane{ControlPlane: c, log: options.Audit.Log.Path}
}

// do sends a request and returns the response and the audit events since the last call, except the
// events of requests by the server itself.
func (p *auditedPlane) do(t *testing.T, method, path, body string, header ...string) (*httptest.ResponseRecorder, []audit.Event) {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	p.ServeHTTP(w, r)
	text, err := os.ReadFile(p.log)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(string(text), "\n")
	var events []audit.Event
	for _, line := range lines[p.seen : len(lines)-1] {
		var event audit.Event
		if err := json.Unmarshal([]byte(line), &event); err != nil {
			t.Fatal(err)
		}
		if event.UserAgent != "mainstay/internal" { // the server itself can send requests at any time
			events = append(events, event)
		}
	}
	p.seen = len(lines) - 1
	return w, events
}

// document decodes JSON. It returns nil if text is empty.
func document(t *testing.T, text []byte) any {
	t.Helper()
	if len(text) == 0 {
		return nil
	}
	var value any
	if err := json.Unmarshal(text, &value); err != nil {
		t.Fatalf("decode %s: %v", text, err)
	}
	return value
}

// TestAuditBodies checks that bodies are recorded as JSON in the requested version, regardless of
// the encoding of the request.
func TestAuditBodies(t *testing.T) {
	t.Parallel()
	p := newAuditedPlane(t, "omitStages: [RequestReceived]\nomitManagedFields: true\nrules: [{level: RequestResponse}]")
	const path = "/api/v1/namespaces/default/configmaps"
	protobuf, err := codec.AppendObject(nil, &corev1.ConfigMap{
		TypeMeta: metav1.TypeMeta{Kind: "ConfigMap", APIVersion: "v1"}, ObjectMeta: metav1.ObjectMeta{Name: "c"}, Data: map[string]string{"a": "<b>"},
	}, codec.Protobuf)
	if err != nil {
		t.Fatal(err)
	}
	const inProtobuf = "application/vnd.kubernetes.protobuf"
	asTable := "application/json;as=Table;g=meta.k8s.io;v=v1"
	for _, test := range []struct {
		method, path, body string
		header             []string
		sent               string // the recorded request body
		name               string // in objectRef
	}{
		{"POST", path, `{"metadata": {"name": "a"},  "unknown": 1}`, nil, `{"metadata":{"name":"a"},"unknown":1}`, "a"},
		{"POST", path, "metadata:\n  name: b\ndata: {x: z}\n", []string{"Content-Type", "application/yaml"}, `{"metadata":{"name":"b"},"data":{"x":"z"}}`, "b"},
		{"POST", path, string(protobuf), []string{"Content-Type", inProtobuf, "Accept", inProtobuf},
			`{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"c"},"data":{"a":"<b>"}}`, "c"},
		{"GET", path + "/a", "", nil, "", "a"},
		{"GET", path + "/a", "", []string{"Accept", inProtobuf}, "", "a"},
		{"GET", path + "/a", "", []string{"Accept", "application/yaml"}, "", "a"},
		{"GET", path + "/a?pretty=1", "", nil, "", "a"},
		{"GET", path + "/a", "", []string{"Accept", asTable}, "", "a"},
		{"GET", path, "", nil, "", ""},
		{"GET", path, "", []string{"Accept", inProtobuf}, "", ""},
		{"GET", path, "", []string{"Accept", inProtobuf + ";as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"}, "", ""},
		{"GET", path + "?limit=2", "", nil, "", ""},
		{"PATCH", path + "/a", `{"data":{"p":"1"},"metadata":{"managedFields":null}}`, []string{"Content-Type", "application/merge-patch+json"}, `{"data":{"p":"1"},"metadata":{}}`, "a"},
		{"PATCH", path + "/a?fieldManager=m", "apiVersion: v1\nkind: ConfigMap\ndata: {q: r}\n", []string{"Content-Type", "application/apply-patch+yaml"}, `{"apiVersion":"v1","kind":"ConfigMap","data":{"q":"r"}}`, "a"},
		{"DELETE", path + "/c", `{"propagationPolicy":"Background"}`, nil, `{"propagationPolicy":"Background"}`, "c"},
		{"GET", path + "/c", "", []string{"Accept", inProtobuf}, "", "c"},
		{"GET", "/api", "", nil, "", ""},
	} {
		what := fmt.Sprint(test.method, " ", test.path, test.header)
		w, events := p.do(t, test.method, test.path, test.body, test.header...)
		if len(events) != 1 || events[0].ResponseStatus.Code != int32(w.Code) {
			t.Errorf("%s: %d %s, %d events", what, w.Code, w.Body, len(events))
			continue
		}
		e := events[0]
		var want any
		if test.sent != "" {
			want = document(t, []byte(test.sent))
		}
		if diff := cmp.Diff(want, document(t, e.RequestObject)); diff != "" {
			t.Errorf("%s: request (-want +got):\n%s", what, diff)
		}
		if e.ObjectRef != nil && e.ObjectRef.Name != test.name {
			t.Errorf("%s: object reference %+v, want the name %q", what, e.ObjectRef, test.name)
		}
		if len(e.ResponseObject) == 0 || strings.Contains(string(e.ResponseObject), "managedFields") {
			t.Errorf("%s: response %s", what, e.ResponseObject)
		}
		if w.Header().Get("Content-Type") == "application/json" && !strings.Contains(w.Body.String(), "managedFields") {
			if diff := cmp.Diff(document(t, w.Body.Bytes()), document(t, e.ResponseObject)); diff != "" {
				t.Errorf("%s: response (-want +got):\n%s", what, diff)
			}
		}
	}
}

// TestAuditOfSameObject checks that the recorded object does not depend on the requested encoding.
func TestAuditOfSameObject(t *testing.T) {
	t.Parallel()
	p := newAuditedPlane(t, "omitStages: [RequestReceived]\nrules: [{level: RequestResponse}]")
	for _, path := range []string{"/api/v1/namespaces/default", "/api/v1/namespaces"} {
		var want any
		for i, accept := range []string{"application/json", "application/yaml", "application/vnd.kubernetes.protobuf"} {
			_, events := p.do(t, "GET", path, "", "Accept", accept)
			got := document(t, events[0].ResponseObject)
			if list, ok := got.(map[string]any); ok && list["items"] != nil {
				delete(list, "metadata") // the server may have written an object in between
			}
			if i == 0 {
				want = got
			}
			if diff := cmp.Diff(want, got); diff != "" || got == nil {
				t.Errorf("%s as %s (-want +got):\n%s", path, accept, diff)
			}
		}
	}
}

// TestAuditLevels checks that only the data of the audit level is recorded.
func TestAuditLevels(t *testing.T) {
	t.Parallel()
	p := newAuditedPlane(t, `rules:
- {level: None, resources: [{group: "", resources: [namespaces]}]}
- {level: Metadata, resources: [{group: "", resources: [secrets]}]}
- {level: Request, resources: [{group: "", resources: [configmaps, endpoints]}]}`)
	const object = `{"metadata":{"name":"a"}}`
	if _, events := p.do(t, "GET", "/api/v1/namespaces", ""); len(events) != 0 {
		t.Errorf("None: %+v", events)
	}
	_, events := p.do(t, "POST", "/api/v1/namespaces/default/secrets", object)
	if len(events) != 2 || events[1].RequestObject != nil || events[1].ResponseObject != nil || events[1].ObjectRef.Name != "a" {
		t.Errorf("Metadata: %+v", events)
	}
	_, events = p.do(t, "POST", "/api/v1/namespaces/default/configmaps", object)
	if len(events) != 2 || string(events[1].RequestObject) != object || events[1].ResponseObject != nil {
		t.Errorf("Request: %+v", events)
	}
	_, events = p.do(t, "GET", "/api/v1/namespaces/default/endpoints", "")
	want := map[string]string{"authorization.k8s.io/decision": "allow", "authorization.k8s.io/reason": "", "k8s.io/deprecated": "true"}
	if diff := cmp.Diff(want, events[1].Annotations); diff != "" {
		t.Errorf("annotations (-want +got):\n%s", diff)
	}
	_, events = p.do(t, "GET", "/api/v1/namespaces/default/configmaps/none", "")
	if status := events[1].ResponseStatus; status.Reason != metav1.StatusReasonNotFound || status.Code != http.StatusNotFound || status.Details.Name != "none" {
		t.Errorf("an error: %+v", status)
	}
	_, events = p.do(t, "GET", "/api/v1/namespaces/default/configmaps?timeout=x", "")
	if len(events) != 1 || events[0].Stage != audit.StageResponseStarted || !strings.Contains(events[0].ResponseStatus.Message, "invalid timeout") {
		t.Errorf("invalid timeout: %+v", events)
	}
}

// TestAuditOfUnsafeDeletion checks that the option to ignore read errors is recorded, regardless of
// the result.
func TestAuditOfUnsafeDeletion(t *testing.T) {
	t.Parallel()
	p := newAuditedPlane(t, "omitStages: [RequestReceived]\nrules: [{level: Metadata}]")
	const annotation = "apiserver.k8s.io/unsafe-delete-ignore-read-error"
	for body, want := range map[string]bool{`{"ignoreStoreReadErrorWithClusterBreakingPotential":true}`: true, "": false} {
		_, events := p.do(t, "DELETE", "/api/v1/namespaces/default/secrets/none", body)
		if value, there := events[0].Annotations[annotation]; there != want || value != "" {
			t.Errorf("%s: annotations %v", body, events[0].Annotations)
		}
	}
}

// TestAuditOfLongList checks that a response that is too large is not recorded, and that the event
// has an annotation about this.
func TestAuditOfLongList(t *testing.T) {
	t.Parallel()
	p := newAuditedPlane(t, `omitStages: [RequestReceived]
rules: [{level: RequestResponse, verbs: [list]}]`)
	for i := range 11 {
		p.do(t, "POST", "/api/v1/namespaces/default/configmaps", fmt.Sprintf(`{"metadata":{"name":"a%d"},"data":{"a":"%s"}}`, i, strings.Repeat("x", 1<<20-10)))
	}
	for _, accept := range []string{"application/json", "application/vnd.kubernetes.protobuf"} {
		w, events := p.do(t, "GET", "/api/v1/namespaces/default/configmaps", "", "Accept", accept)
		if w.Body.Len() < 11<<20 || len(events) != 1 || events[0].ResponseObject != nil || events[0].Annotations["audit.k8s.io/truncated"] != "true" {
			t.Errorf("%s: %d bytes, %d events", accept, w.Body.Len(), len(events))
		}
	}
}

// TestBadAuditPolicy checks that a control plane with an invalid policy cannot be opened.
func TestBadAuditPolicy(t *testing.T) {
	t.Parallel()
	p := newAuditedPlane(t, "rules: [{level: Some}]")
	err := p.Open(t.Context())
	if err == nil || !strings.Contains(err.Error(), `loading audit policy file: rules[0].level: Unsupported value: "Some"`) || strings.Contains(err.Error(), "\n") {
		t.Errorf("open with an invalid audit policy: error %v", err)
	}
}
