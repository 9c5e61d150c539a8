package conformance

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"time"
)

// watchTimeout is the maximum time to wait for the recorded events of a watch. It is long enough for a busy
// machine.
const watchTimeout = 30 * time.Second

// knownWatchTimeout replaces watchTimeout for a watch that is listed as not matching. Most such watches wait
// for events that never arrive. If the events arrive later, the watch stays listed.
const knownWatchTimeout = 3 * time.Second

// openWatch is a watch that stays open while later steps are sent.
type openWatch struct {
	step         Step
	liveResponse liveResponse // status and headers
	lines        chan json.RawMessage
	ended        chan error // receives one value at the end of the stream
	close        func() error
}

// isWatch reports whether the response of a step must be read in the background. A rejected watch has an
// ordinary response.
func isWatch(step Step) bool {
	return step.Response.Status == http.StatusOK && step.Request.Method == http.MethodGet && watching.MatchString(step.Request.Path)
}

// watching matches the paths of watches. Any value of the parameter except false enables a watch.
var watching = regexp.MustCompile(`/watch/|[?&]watch=(1|true|maybe)\b`)

// isEventStream reports whether a watch was recorded as JSON events. A protobuf watch was recorded as one body.
func isEventStream(step Step) bool { return step.Response.BodyEncoding == "" }

// recordedEvents returns the recorded events of a watch. If the recorder did not expect a watch, it has
// recorded them in the body.
func recordedEvents(r Response) ([]Event, error) {
	if len(r.Body) == 0 {
		return r.Events, nil
	}
	stream := []byte(r.Body)
	if stream[0] == '"' {
		var text string
		if err := json.Unmarshal(stream, &text); err != nil {
			return nil, err
		}
		stream = []byte(text)
	}
	var events []Event
	for d := json.NewDecoder(bytes.NewReader(stream)); d.More(); {
		var event Event
		if err := d.Decode(&event); err != nil {
			return nil, fmt.Errorf("read recorded events: %w", err)
		}
		events = append(events, event)
	}
	return events, nil
}

// follow reads the events of a response in a goroutine, until the response ends or close is called.
func follow(step Step, resp *http.Response) *openWatch {
	w := &openWatch{
		step:         step,
		liveResponse: liveResponse{status: resp.StatusCode, header: resp.Header},
		lines:        make(chan json.RawMessage, 4096), // more than in any recording, so that a slow test does not block the server
		ended:        make(chan error, 1),
		close:        resp.Body.Close,
	}
	go func() {
		d := json.NewDecoder(resp.Body)
		for {
			var line json.RawMessage
			if err := d.Decode(&line); err != nil {
				w.ended <- err
				return
			}
			w.lines <- line
		}
	}()
	return w
}

// compare waits for the recorded number of events, for at most timeout, and compares them. The recorder closed
// most streams itself, so additional events are allowed, except if the recorded server closed the stream.
func (w *openWatch) compare(c *Comparison, timeout time.Duration) {
	compareStatus(c, w.step.Response, w.liveResponse.status)
	compareHeaders(c, w.step.Response, w.liveResponse)
	defer w.close()
	serverEnds := strings.Contains(w.step.Response.Note, "server closed the stream")
	recorded, err := recordedEvents(w.step.Response)
	if err != nil {
		c.note("recording", "%v", err)
		return
	}
	want := withoutBookmarks(recorded)
	got, err := w.collect(len(want), serverEnds, timeout)
	if err != nil {
		c.note("watch", "%v", err)
	}
	for i := range min(len(want), len(got)) {
		path := fmt.Sprintf("event[%d]", i)
		if want[i].Type != got[i].Type {
			c.note(path+".type", "want %s, got %s", want[i].Type, got[i].Type)
		}
		compareRaw(c, path+".object", want[i].Object, got[i].Object)
	}
	if len(got) < len(want) || serverEnds && len(got) > len(want) {
		c.note("watch", "want %d events, got %d", len(want), len(got))
	}
}

// collect reads events until it has received enough or, if serverEnds is true, until the stream ends.
func (w *openWatch) collect(enough int, serverEnds bool, timeout time.Duration) ([]Event, error) {
	var events []Event
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	take := func(line json.RawMessage) error {
		var event Event
		if err := json.Unmarshal(line, &event); err != nil {
			return fmt.Errorf("read an event: %w", err)
		}
		events = append(events, withoutBookmarks([]Event{event})...)
		return nil
	}
	for serverEnds || len(events) < enough {
		select {
		case line := <-w.lines:
			if err := take(line); err != nil {
				return events, err
			}
		case err := <-w.ended:
			for len(w.lines) > 0 {
				if err := take(<-w.lines); err != nil {
					return events, err
				}
			}
			if err == io.EOF {
				return events, nil
			}
			return events, fmt.Errorf("read the stream: %w", err)
		case <-timer.C:
			return events, fmt.Errorf("the stream has not ended after %s", timeout)
		}
	}
	return events, nil
}

// withoutBookmarks removes the bookmarks, which a server can send at any time, except the one that ends the
// initial events.
func withoutBookmarks(events []Event) []Event {
	var kept []Event
	for _, event := range events {
		if event.Type != "BOOKMARK" || bytes.Contains(event.Object, []byte("k8s.io/initial-events-end")) {
			kept = append(kept, event)
		}
	}
	return kept
}

func compareRaw(c *Comparison, path string, want, got json.RawMessage) {
	wantValue, err := decodeJSON(want)
	if err != nil {
		c.note(path, "recording: %v", err)
		return
	}
	gotValue, err := decodeJSON(got)
	if err != nil {
		c.note(path, "%v", err)
		return
	}
	c.Values(path, wantValue, gotValue)
}
