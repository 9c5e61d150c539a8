package conformance

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"mainstay.dev/mainstay/test/testserver"
)

// TestAdmissionWebhooks replays conversations about admission webhooks. The test's webhook responds like the
// webhook that was used for the recording, and the requests to it are compared like responses.
func TestAdmissionWebhooks(t *testing.T) {
	t.Parallel()
	recording := readRecording(t, "webhook/admission")
	asked := &recordingWebhook{answers: map[string]Review{}}
	for _, scenario := range recording.Scenarios {
		for _, step := range scenario.Steps {
			for _, review := range step.Reviews {
				asked.answers[review.Request.Path] = review
			}
		}
	}
	hook := httptest.NewTLSServer(asked)
	defer hook.Close()
	srv := testserver.New(t, testserver.Options{Flags: recordedFlags})
	replayer, err := NewReplayer(srv.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	replayer.Compare = func(c *Comparison, step Step, got liveResponse) {
		compareResponse(c, step, got)
		asked.compare(c, step)
	}
	verdict := newVerdict(t, "webhook/admission")
	for _, scenario := range recording.Scenarios {
		verdict.check(t, replayer.Replay(t.Context(), withWebhook(scenario, hook), NewMemory()))
		if err := replayer.CleanUp(t.Context(), scenario); err != nil {
			t.Error(err)
		}
	}
	verdict.finish(t)
}

// recordingWebhook returns the recorded response for each path, and records the requests.
type recordingWebhook struct {
	answers map[string]Review

	mu    sync.Mutex
	asked []Request
}

func (a *recordingWebhook) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	if r.URL.Path == slow {
		<-r.Context().Done() // the server closes the request after its timeout
		return
	}
	a.mu.Lock()
	a.asked = append(a.asked, Request{Path: r.URL.RequestURI(), Body: body})
	a.mu.Unlock()
	recorded := a.answers[r.URL.RequestURI()]
	if r.URL.Path == "/redirect" {
		http.Redirect(w, r, "/allow", recorded.Response.Status)
		return
	}
	liveResponse := bytes.ReplaceAll(recorded.Response.Body, []byte(uidOf(recorded.Request.Body)), []byte(uidOf(body)))
	var text string
	if json.Unmarshal(liveResponse, &text) == nil {
		liveResponse = []byte(text)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(recorded.Response.Status)
	_, _ = w.Write(liveResponse)
}

// slow is the path of a webhook that does not respond before the timeout. In the recording, its requests are
// part of the next step.
const slow = "/slow"

// uidOf returns the uid of the request in an AdmissionReview.
func uidOf(review []byte) string {
	var read struct {
		Request struct{ UID string }
	}
	_ = json.Unmarshal(review, &read)
	return read.Request.UID
}

// compare compares the requests since its last call with the requests in the recorded step.
func (a *recordingWebhook) compare(c *Comparison, step Step) {
	a.mu.Lock()
	asked := a.asked
	a.asked = nil
	a.mu.Unlock()
	step.Reviews = slices.DeleteFunc(step.Reviews, func(r Review) bool { return strings.HasPrefix(r.Request.Path, slow) })
	if len(asked) != len(step.Reviews) {
		c.note("reviews", "%d, want %d", len(asked), len(step.Reviews))
		return
	}
	for i, review := range step.Reviews {
		if asked[i].Path != review.Request.Path {
			c.note("review", "of %s, want %s", asked[i].Path, review.Request.Path)
		}
		want, err := decodeJSON(review.Request.Body)
		if err != nil {
			c.note("recording", "%v", err)
			return
		}
		got, err := decodeJSON(asked[i].Body)
		if err != nil {
			c.note("review", "%v", err)
			return
		}
		c.Values("review", want, got)
	}
}
