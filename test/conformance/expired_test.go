package conformance

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"mainstay.dev/mainstay/test/testserver"
)

// TestExpiredRevisions replays requests for revisions that the server has removed. The two recordings form one
// conversation; the server is restarted between them. The server keeps one second of history.
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
		expire(t, srv, newFetcher(t, srv))
		return true
	}
	memory := NewMemory()
	for _, name := range []string{"expired/before-restart", "expired/after-restart"} {
		recording := readRecording(t, name)
		verdict := newVerdict(t, name)
		verdict.check(t, replayer.Replay(t.Context(), recording.Scenarios[0], memory))
		verdict.finish(t)
		if err := srv.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// expire creates revisions until the server has removed the first of them. It then restarts the server, because
// the watch cache may retain more history than the store. The removed revision is later than all revisions that
// the recording has used so far.
func expire(t *testing.T, srv *testserver.Server, f *fetcher) {
	t.Helper()
	const clock = "/api/v1/namespaces/default/configmaps/clock?fieldManager=clock"
	var first string
	testserver.Eventually(t, time.Minute, func() error {
		object := map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "data": map[string]any{"now": time.Now().Format(time.RFC3339Nano)}}
		status, written := f.send(t, http.MethodPatch, clock, "application/apply-patch+yaml", object)
		if status != http.StatusOK && status != http.StatusCreated {
			return fmt.Errorf("write the clock: status %d: %v", status, written["message"])
		}
		if metadata, _ := written["metadata"].(map[string]any); first == "" {
			first, _ = metadata["resourceVersion"].(string)
		}
		status, _ = f.do(t, http.MethodGet, "/api/v1/configmaps?resourceVersionMatch=Exact&resourceVersion="+first, nil)
		if status != http.StatusGone {
			return fmt.Errorf("a list at revision %s: status %d", first, status)
		}
		return nil
	})
	if err := srv.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
}
