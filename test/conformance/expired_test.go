package conformance

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"mainstay.dev/mainstay/test/testserver"
)

// TestExpiredRevisions replays requests for revisions that the server has removed. The two
// recordings are one conversation with a restart in between. The server keeps a history of one
// second.
func TestExpiredRevisions(t *testing.T) {
	t.Parallel()
	srv := testserver.New(t, testserver.Options{Flags: append([]string{"--history-retention=1s"}, recordedFlags...)})
	replayer, err := NewReplayer(srv.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(time.Minute)
	replayer.Again = func(ctx context.Context, step Step, status int) bool {
		if step.Response.Status != http.StatusGone || status != http.StatusOK || time.Now().After(deadline) {
			return false
		}
		expire(t, srv, replayer)
		return true
	}
	memory := NewMemory()
	for _, name := range []string{"expired/before-restart", "expired/after-restart"} {
		recording := readRecording(t, name)
		verdict := newVerdict(t, name)
		verdict.judge(t, replayer.Replay(t.Context(), recording.Scenarios[0], memory))
		verdict.finish(t)
		if err := srv.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// expire creates five revisions, waits for the retention time and restarts the server. Only
// revisions before the latest are removed, and the watch cache may keep more than the store.
func expire(t *testing.T, srv *testserver.Server, replayer *Replayer) {
	t.Helper()
	for range 5 {
		body := fmt.Sprintf(`{"data":{"now":"%d"}}`, time.Now().UnixNano())
		request := Request{Method: "PATCH", Headers: map[string]string{"Content-Type": "application/apply-patch+yaml"}}
		body = strings.Replace(body, "{", `{"apiVersion":"v1","kind":"ConfigMap",`, 1)
		req, err := newHTTPRequest(replayer.base, "/api/v1/namespaces/default/configmaps/clock?fieldManager=clock", request, []byte(body), NewMemory())
		if err != nil {
			t.Fatal(err)
		}
		resp, err := replayer.client.Do(req.WithContext(t.Context()))
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
	}
	// A server keeps what it finds for a whole retention from its start on.
	time.Sleep(1500 * time.Millisecond)
	if err := srv.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
}
