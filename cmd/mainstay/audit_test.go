package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mainstay.dev/mainstay/internal/filters/audit"
	"mainstay.dev/mainstay/test/testserver"
)

// TestAudit checks that the log file and the webhook receive all audit events of a client, including events
// that occur shortly before the server stops.
func TestAudit(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	policy := write("policy.yaml", `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- {level: None, nonResourceURLs: ["*"]}
- {level: None, users: ["system:apiserver"]} # requests of the server and its controllers
- {level: None, userGroups: ["system:serviceaccounts:kube-system"]}
- {level: None, resources: [{group: coordination.k8s.io}]}
- {level: Metadata, resources: [{group: "", resources: [secrets]}]}
- {level: Request, resources: [{group: "", resources: [configmaps]}]}
- {level: RequestResponse, omitManagedFields: true, resources: [{group: "", resources: [namespaces]}]}
`)
	var received struct {
		sync.Mutex
		events []audit.Event
	}
	webhook := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var list audit.EventList
		if err == nil {
			err = json.Unmarshal(body, &list)
		}
		if err != nil {
			t.Error(err)
		}
		received.Lock()
		defer received.Unlock()
		received.events = append(received.events, list.Items...)
	}))
	defer webhook.Close()
	config := write("webhook.yaml", fmt.Sprintf(`{"current-context":"a","contexts":[{"name":"a","context":{"cluster":"a","user":"a"}}],
		"clusters":[{"name":"a","cluster":{"server":%q}}],"users":[{"name":"a","user":{}}]}`, webhook.URL))
	log := filepath.Join(dir, "audit.log")
	s := testserver.New(t, testserver.Options{Flags: []string{
		"--audit-policy-file=" + policy, "--audit-log-path=" + log, "--audit-log-mode=batch", "--audit-log-batch-max-size=100", "--audit-log-batch-max-wait=1h",
		"--audit-webhook-config-file=" + config, "--audit-webhook-batch-max-wait=1h",
	}})
	sendRequests(t, s)
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for line := range strings.Lines(string(text)) {
		var event audit.Event
		if err := json.Unmarshal([]byte(line), &event); err != nil {
			t.Fatal(err)
		}
		got = append(got, summary(&event))
	}
	want := []string{
		"Metadata create secrets/s 201 ResponseComplete",
		"Metadata get secrets/s 200 ResponseComplete",
		"Request create configmaps/c 201 ResponseComplete request",
		"Request get configmaps/none 404 ResponseComplete",
		"Request watch configmaps/ 200 ResponseStarted",
		"Request watch configmaps/ 200 ResponseComplete",
		"RequestResponse create namespaces/n 201 ResponseComplete request response",
	}
	slices.Sort(got) // the event for the end of the watch can be at any position
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s, want\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if strings.Contains(string(text), "managedFields") || strings.Contains(string(text), "hidden") {
		t.Errorf("the log contains data that the policy omits: %s", text)
	}
	if len(received.events) != len(want) {
		t.Errorf("the webhook got %d events, want %d", len(received.events), len(want))
	}
}

// sendRequests sends the requests whose audit events the test expects.
func sendRequests(t *testing.T, s *testserver.Server) {
	t.Helper()
	core := clientOf(t, s).CoreV1()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	_, err := core.Secrets("default").Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s"}, StringData: map[string]string{"a": "hidden"}}, metav1.CreateOptions{})
	must(err)
	_, err = core.Secrets("default").Get(t.Context(), "s", metav1.GetOptions{})
	must(err)
	_, err = core.ConfigMaps("default").Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "c"}}, metav1.CreateOptions{})
	must(err)
	if _, err = core.ConfigMaps("default").Get(t.Context(), "none", metav1.GetOptions{}); err == nil {
		t.Error("a missing object was found")
	}
	_, err = core.Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "n"}}, metav1.CreateOptions{})
	must(err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel) // the watch lasts until the server stops
	watch, err := core.ConfigMaps("default").Watch(ctx, metav1.ListOptions{})
	must(err)
	<-watch.ResultChan()
}

// summary formats an audit event as one line.
func summary(e *audit.Event) string {
	text := fmt.Sprintf("%s %s %s/%s %d %s", e.Level, e.Verb, e.ObjectRef.Resource, e.ObjectRef.Name, e.ResponseStatus.Code, e.Stage)
	if e.RequestObject != nil {
		text += " request"
	}
	if e.ResponseObject != nil {
		text += " response"
	}
	return text
}
