package conformance

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/client-go/rest"
)

// conversation is a short recording: a creation, an update that contains generated values of the creation, a
// watch of both, and a server error.
const conversation = `
{"scenario":"s","step":1,"name":"watch","request":{"method":"GET","path":"/things?watch=1"},"response":{"status":200,"events":[{"type":"ADDED","object":{"metadata":{"name":"a","uid":"UID","resourceVersion":"7"}}},{"type":"MODIFIED","object":{"metadata":{"name":"a","uid":"UID","resourceVersion":"8"}}}]}}
{"scenario":"s","step":2,"name":"create","request":{"method":"POST","path":"/things","body":{"name":"a"}},"response":{"status":201,"body":{"metadata":{"name":"a","uid":"UID","resourceVersion":"7"}}}}
{"scenario":"s","step":3,"name":"update","request":{"method":"PUT","path":"/things/a","body":{"metadata":{"uid":"UID","resourceVersion":"7"}}},"response":{"status":200,"body":{"metadata":{"name":"a","uid":"UID","resourceVersion":"8"}}}}
{"scenario":"s","step":4,"name":"fault","request":{"method":"GET","path":"/fault"},"response":{"status":500,"body":{"kind":"Status","message":"bad value","code":500}}}
{"scenario":"s","step":5,"name":"large","request":{"method":"POST","path":"/length","bodyFrom":{"step":2,"patch":[{"op":"add","path":"/x","value":"x repeated 5000 times"}]}},"response":{"status":200,"body":{"length":5019}}}
{"scenario":"s","step":6,"name":"anonymous","request":{"method":"GET","path":"/whoami","headers":{"(client)":"no client certificate"}},"response":{"status":401,"headers":{"Content-Type":"text/plain"},"body":"who?"}}
`

// conversationServer responds to the requests of conversation. Its uids and revisions differ from the recorded
// ones.
type conversationServer struct{ created, updated chan struct{} }

func (s *conversationServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	object := func(revision int) string {
		return fmt.Sprintf(`{"metadata":{"name":"a","uid":"%s","resourceVersion":"%d"}}`, liveUID, revision)
	}
	switch r.Method + " " + r.URL.RequestURI() {
	case "GET /things?watch=1":
		w.(http.Flusher).Flush()
		<-s.created
		fmt.Fprintf(w, `{"type":"ADDED","object":%s}`, object(100))
		<-s.updated
		fmt.Fprintf(w, `{"type":"BOOKMARK","object":%s}{"type":"MODIFIED","object":%s}`, object(101), object(102))
	case "POST /things":
		w.WriteHeader(http.StatusCreated)
		io.WriteString(w, object(100))
		close(s.created)
	case "PUT /things/a":
		body, _ := io.ReadAll(r.Body)
		if string(body) != `{"metadata":{"uid":"`+liveUID+`","resourceVersion":"100"}}` {
			w.WriteHeader(http.StatusConflict)
		}
		io.WriteString(w, object(102))
		close(s.updated)
	case "GET /fault":
		w.WriteHeader(http.StatusBadRequest)
		io.WriteString(w, `{"kind":"Status","message":"bad value","code":400}`)
	case "POST /length":
		body, _ := io.ReadAll(r.Body)
		json.NewEncoder(w).Encode(map[string]int{"length": len(body)})
	case "GET /whoami":
		w.Header().Set("Content-Type", "text/plain")
		w.WriteHeader(http.StatusUnauthorized)
		io.WriteString(w, "who?")
	}
}

func TestReplay(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(&conversationServer{created: make(chan struct{}), updated: make(chan struct{})})
	t.Cleanup(server.Close)
	scenarios, err := readScenarios(strings.NewReader(strings.ReplaceAll(conversation, "UID", recordedUID)))
	if err != nil {
		t.Fatal(err)
	}
	replayer, err := NewReplayer(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	for _, result := range replayer.Replay(t.Context(), scenarios[0], NewMemory()) {
		if len(result.Differences) > 0 {
			t.Errorf("%s: differences %q, want none", describe(result.Step), result.Differences)
		}
	}
}

func TestReplayTellsDifferences(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(&conversationServer{created: make(chan struct{}), updated: make(chan struct{})})
	t.Cleanup(server.Close)
	changed := strings.NewReplacer("UID", recordedUID, `"resourceVersion":"8"`, `"resourceVersion":"7"`, "bad value", "worse", "5019", "7", "401", "403").Replace(conversation)
	scenarios, err := readScenarios(strings.NewReader(changed))
	if err != nil {
		t.Fatal(err)
	}
	replayer, err := NewReplayer(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	for _, result := range replayer.Replay(t.Context(), scenarios[0], NewMemory()) {
		if got, want := len(result.Differences) > 0, result.Step.Name != "create"; got != want {
			t.Errorf("%s: %q, want differences: %t", describe(result.Step), result.Differences, want)
		}
	}
}
