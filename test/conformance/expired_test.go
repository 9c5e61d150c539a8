package conformance

import (
	"net/http"
	"testing"

	"mainstay.dev/mainstay/test/testserver"
)

// TestExpiredRevisions replays what a client meets whose revision is no longer kept: the two recordings are one
// conversation with a restart in between, on a server that keeps hardly any history.
func TestExpiredRevisions(t *testing.T) {
	t.Parallel()
	srv := testserver.New(t, testserver.Options{Flags: append([]string{"--history-retention=1s"}, recordedFlags...)})
	replayer, err := NewReplayer(srv.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	memory := NewMemory()
	before := readRecording(t, "expired/before-restart")
	replayer.Await = func(s Step) bool { return s.Response.Status == http.StatusGone }
	verdict := newVerdict(t, before.Name)
	verdict.judge(t, replayer.Replay(t.Context(), before.Scenarios[0], memory))
	verdict.finish(t)

	if err := srv.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	after := readRecording(t, "expired/after-restart")
	verdict = newVerdict(t, after.Name)
	verdict.judge(t, replayer.Replay(t.Context(), after.Scenarios[0], memory))
	verdict.finish(t)
}
