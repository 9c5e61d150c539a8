package conformance

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"mainstay.dev/mainstay/test/testserver"
)

// TestMutatedRequests sends the bodies of recorded writes, unchanged and with random changes. The server must
// respond to each request without an internal error.
func TestMutatedRequests(t *testing.T) {
	t.Parallel()
	srv := testserver.New(t, testserver.Options{Flags: recordedFlags})
	replayer, err := NewReplayer(srv.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range recordingNames(t) {
		if strings.Contains(name, "health") || strings.Contains(name, "discovery") {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			mutateRecording(t, replayer, readRecording(t, name))
		})
	}
}

// mutationsOfStep returns the number of changed bodies to send for each step.
func mutationsOfStep() int {
	if testing.Short() {
		return 1
	}
	return 6
}

func mutateRecording(t *testing.T, replayer *Replayer, recording Recording) {
	random := rand.New(rand.NewPCG(1, 2))
	seen := map[string]bool{} // one step for each method, name and resource is enough
	for _, scenario := range recording.Scenarios {
		for _, step := range scenario.Steps {
			var body any
			kind := step.Request.Method + " " + step.Name + " " + strings.Split(scenario.Name, "/")[0]
			if strings.HasSuffix(step.Request.Path, "/namespaces") {
				kind = step.Request.Path + scenario.Name // later steps require each namespace, so each of its creations is sent
			}
			if len(step.Request.Body) == 0 || step.Request.BodyEncoding != "" || step.Response.Status >= 400 || seen[kind] ||
				json.Unmarshal(step.Request.Body, &body) != nil {
				continue
			}
			if _, text := body.(string); text {
				continue
			}
			seen[kind] = true
			sendMutation(t, replayer, step, body)
			for range mutationsOfStep() {
				sendMutation(t, replayer, step, Mutate(random, body))
			}
		}
	}
}

func sendMutation(t *testing.T, replayer *Replayer, step Step, body any) {
	t.Helper()
	got, sent, err := sendBody(t, replayer, step, body)
	if err != nil {
		t.Errorf("send %s %s %s: %v", step.Request.Method, step.Request.Path, sent, err)
		return
	}
	if got.status >= http.StatusInternalServerError {
		t.Errorf("%s %s\n  %s\n  answers %d %s", step.Request.Method, step.Request.Path, sent, got.status, bytes.TrimSpace(got.body))
	}
}

// sendBody sends the request of a step with another body. It returns the response and the body as sent.
func sendBody(t *testing.T, replayer *Replayer, step Step, body any) (got liveResponse, sent []byte, err error) {
	t.Helper()
	if sent, err = json.Marshal(body); err != nil {
		t.Fatal(err)
	}
	req, err := newHTTPRequest(replayer.base, step.Request.Path, step.Request, sent, NewMemory())
	if err != nil {
		t.Fatal(err)
	}
	resp, err := replayer.client.Do(req.WithContext(t.Context()))
	if err != nil {
		return liveResponse{}, sent, err
	}
	got, err = readAnswer(resp)
	return got, sent, err
}

func TestMutateChangesACopy(t *testing.T) {
	t.Parallel()
	parse := func() any {
		v, err := decodeJSON([]byte(`{"a":{"b":[1,{"c":"d"}],"e":null},"f":[true]}`))
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	original, untouched := parse(), parse()
	random := rand.New(rand.NewPCG(3, 4))
	changed := 0
	for range 200 {
		if !reflect.DeepEqual(Mutate(random, original), untouched) {
			changed++
		}
	}
	if !reflect.DeepEqual(original, untouched) {
		t.Error("the value itself was changed")
	}
	if changed < 190 {
		t.Errorf("%d of 200 mutations changed something", changed)
	}
}
