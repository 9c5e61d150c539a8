package conformance

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"k8s.io/client-go/rest"
)

// stepTimeout is the timeout of a step that is not a watch. The server needs three seconds for the slowest
// recorded requests.
const stepTimeout = time.Minute

// Replayer sends scenarios to one server.
type Replayer struct {
	// Again is called for each response whose status differs from the recorded one. It reports whether to send
	// the request again. If nil, requests are never repeated.
	Again func(ctx context.Context, step Step, status int) bool
	// Compare compares a response that is not a watch. If nil, compareResponse is used.
	Compare func(c *Comparison, step Step, got liveResponse)

	// ClientOf returns a client with a certificate for a subject, such as "CN=name O=group". It may be nil if
	// no step requires a certificate.
	ClientOf func(subject string) (*http.Client, error)
	// Known lists the steps that are expected not to match. They are compared like other steps, but with a
	// shorter timeout for watches.
	Known Known

	base      string
	client    *http.Client // with the administrator's certificate
	anonymous *http.Client // without credentials
}

// NewReplayer returns a Replayer for the server that config describes.
func NewReplayer(config *rest.Config) (*Replayer, error) {
	client, err := newClient(config)
	if err != nil {
		return nil, fmt.Errorf("make a client: %w", err)
	}
	anonymous, err := newClient(rest.AnonymousClientConfig(config))
	if err != nil {
		return nil, fmt.Errorf("make a client without certificate: %w", err)
	}
	return &Replayer{base: config.Host, client: client, anonymous: anonymous}, nil
}

// newClient returns a client that neither follows redirects nor decompresses bodies.
func newClient(config *rest.Config) (*http.Client, error) {
	config = rest.CopyConfig(config)
	config.DisableCompression = true // the recorder accepted gzip only in steps with that header
	config.Timeout = 0
	shared, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, err
	}
	client := *shared
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &client, nil
}

// Result is the result of one step.
type Result struct {
	Step        Step
	Differences []string // nil if the response matches
}

// Replay sends the steps of the scenario in order. Watches stay open until all steps have been sent. The
// results are in the order of the steps.
func (r *Replayer) Replay(ctx context.Context, scenario Scenario, memory *Memory) []Result {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	results := make([]Result, len(scenario.Steps))
	watches := map[int]*openWatch{}
	bodies := map[int]chan liveResponse{}
	for i, step := range scenario.Steps {
		c := &Comparison{
			Memory: memory, Newer: newerFields(scenario.Name),
			Partial: step.Response.BodyFrom != nil, GenerateName: generateName(step.Request),
		}
		resp, err := r.sendWithRetry(ctx, scenario, step, memory)
		switch {
		case err != nil:
			c.note("exchange", "%v", err)
		case isWatch(step) && isEventStream(step):
			watches[i] = follow(step, resp)
		case isWatch(step):
			bodies[i] = readInBackground(resp)
		default:
			r.compareNow(c, scenario, step, resp)
		}
		if err == nil && changesDefinitions(step) {
			if err := r.AwaitDefinitions(ctx); err != nil {
				c.note("definitions", "%v", err)
			}
		}
		results[i] = Result{Step: step, Differences: c.Differences}
	}
	for i, step := range scenario.Steps {
		c := &Comparison{Memory: memory, Newer: newerFields(scenario.Name)}
		if watch, ok := watches[i]; ok {
			watch.compare(c, r.watchTimeout(step))
		} else if body, ok := bodies[i]; ok {
			compareResponse(c, step, <-body)
		} else {
			continue
		}
		results[i].Differences = c.Differences
	}
	return results
}

// watchTimeout returns how long to wait for the recorded events of a watch.
func (r *Replayer) watchTimeout(step Step) time.Duration {
	if _, listed := r.Known[stepKey{step.Scenario, step.Number}]; listed {
		return knownWatchTimeout
	}
	return watchTimeout
}

// newerFields returns the fields that 1.37 always returns but the recorded 1.36 does not. They depend on the
// resource, which is the first part of the name of a scenario.
func newerFields(scenario string) []string {
	resource, _, _ := strings.Cut(scenario, ".")
	switch resource {
	case "csinodes":
		return []string{"status"}
	case "horizontalpodautoscalers": // the gate HPAGeneration is on
		return []string{"generation"}
	case "statefulsets": // the gate MaxUnavailableStatefulSet is on
		return []string{"maxUnavailable", "f:maxUnavailable"}
	}
	return nil
}

// sendWithRetry sends a request, and repeats it while Again returns true.
func (r *Replayer) sendWithRetry(ctx context.Context, scenario Scenario, step Step, memory *Memory) (*http.Response, error) {
	for {
		resp, err := r.send(ctx, scenario, step, memory)
		if err != nil || r.Again == nil || resp.StatusCode == step.Response.Status || !r.Again(ctx, step, resp.StatusCode) {
			return resp, err
		}
		resp.Body.Close()
	}
}

// generateName returns the generateName of the object in a request, or "" if the object has a name.
func generateName(r Request) string {
	if r.BodyFrom != nil {
		return patchedGenerateName(r.BodyFrom.Patch)
	}
	var object struct {
		Metadata struct{ Name, GenerateName string }
	}
	if json.Unmarshal(r.Body, &object) != nil || object.Metadata.Name != "" {
		return ""
	}
	return object.Metadata.GenerateName
}

// patchedGenerateName returns the generateName that a JSON patch sets.
func patchedGenerateName(patch json.RawMessage) string {
	if !bytes.Contains(patch, []byte("/metadata/generateName")) {
		return ""
	}
	var operations []struct {
		Path  string
		Value any
	}
	if json.Unmarshal(patch, &operations) != nil {
		return ""
	}
	for _, operation := range operations {
		if name, ok := operation.Value.(string); ok && operation.Path == "/metadata/generateName" {
			return name
		}
	}
	return ""
}

// send rewrites and sends the request of a step. It returns as soon as it has received the response headers.
func (r *Replayer) send(ctx context.Context, scenario Scenario, step Step, memory *Memory) (*http.Response, error) {
	body, err := recordedBody(scenario, step)
	if err != nil {
		return nil, err
	}
	if err := r.learnRevision(ctx, step, body, memory); err != nil {
		return nil, err
	}
	path := memory.RewritePath(step.Request.Path)
	live, err := memory.RewriteEncoded(body)
	if err != nil {
		return nil, err
	}
	if step.Name == brokenSignature {
		live = breakSignatures(live)
	}
	if step.Request.Headers, err = withTokens(scenario, step.Request.Headers); err != nil {
		return nil, err
	}
	memory.Sent(step.Request.Path)
	memory.Sent(string(body))
	req, err := newHTTPRequest(r.base, path, step.Request, live, memory)
	if err != nil {
		return nil, err
	}
	from, err := r.clientOf(step.Request.Headers[remark])
	if err != nil {
		return nil, err
	}
	client := *from
	if !isWatch(step) {
		client.Timeout = stepTimeout
	}
	return client.Do(req.WithContext(ctx))
}

// clientOf returns the client that a remark in the headers of a request describes.
func (r *Replayer) clientOf(remark string) (*http.Client, error) {
	if subject, ok := strings.CutPrefix(remark, withCertificate); ok {
		return r.ClientOf(subject)
	}
	if remark == withoutCertificate {
		return r.anonymous, nil
	}
	return r.client, nil
}

func (r *Replayer) compareNow(c *Comparison, scenario Scenario, step Step, resp *http.Response) {
	got, err := readAnswer(resp)
	if err != nil {
		c.note("exchange", "%v", err)
		return
	}
	if step.Response.BodyFrom != nil {
		step.Response.Body, err = patchedResponse(scenario, *step.Response.BodyFrom)
		if err != nil {
			c.note("recording", "%v", err)
			return
		}
	}
	if r.Compare != nil {
		r.Compare(c, step, got)
		return
	}
	compareResponse(c, step, got)
}

// readInBackground reads a complete response in a goroutine. The caller can send other requests in the
// meantime.
func readInBackground(resp *http.Response) chan liveResponse {
	read := make(chan liveResponse, 1)
	go func() {
		got, err := readAnswer(resp)
		if err != nil {
			got = liveResponse{status: resp.StatusCode, header: resp.Header, body: []byte(err.Error())}
		}
		read <- got
	}()
	return read
}
