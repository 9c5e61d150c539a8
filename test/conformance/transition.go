package conformance

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"
)

// compareTransition compares the result of an update. Rejections were recorded in a short form, so only the
// code and the fields and reasons of the causes are compared. Accepted objects are compared completely.
func compareTransition(c *Comparison, step Step, got liveResponse) {
	c.Partial = true
	want := step.Response
	serverFault := want.Status == 0 || want.Status == http.StatusInternalServerError // this server rejects such a request with its own message
	switch {
	case want.Status < http.StatusBadRequest && !serverFault && got.status < http.StatusBadRequest:
		c.compareObjects(step, got)
	case want.Status < http.StatusBadRequest && !serverFault && strings.Contains(statusMessage(got.body), "provided port is already allocated"):
		// The step requests a fixed node port, which this server has already allocated to another service at
		// random.
	case want.Status < http.StatusBadRequest && !serverFault:
		c.note("status", "want %d, got %d: %s", want.Status, got.status, statusMessage(got.body))
	case got.status < http.StatusBadRequest || serverFault:
		compareStatus(c, want, got.status)
	default:
		compareShortRejections(c, want, got)
	}
}

// compareObjects compares the status codes and the objects of two responses.
func (c *Comparison) compareObjects(step Step, got liveResponse) {
	want := step.Response
	if want.Status != got.status {
		c.note("status", "want %d, got %d", want.Status, got.status)
	}
	if len(want.Body) == 0 {
		return
	}
	wantBody, err := decodeJSON(want.Body)
	if err != nil {
		c.note("recording", "%v", err)
		return
	}
	gotBody, err := decodeJSON(got.body)
	if err != nil {
		c.note("body", "%v", err)
		return
	}
	if status, _ := wantBody.(map[string]any); status["kind"] == "Status" {
		return // the Status of a deletion was recorded without details
	}
	if hasControllers(step.Scenario) {
		wantBody, gotBody = withoutStatus(wantBody), withoutStatus(gotBody)
	}
	if object, ok := gotBody.(map[string]any); ok && changedByClock(wantBody, object) {
		gotBody = withGenerationOf(wantBody, object)
	}
	c.Values("", wantBody, gotBody)
}

// hasControllers reports whether a scenario tests a kind whose status the server's controllers also write, at
// an unpredictable time.
func hasControllers(scenario string) bool {
	kind, _, _ := strings.Cut(scenario, ".")
	return kind == "customresourcedefinitions" || kind == "apiservices" || kind == "flowschemas"
}

func withoutStatus(body any) any {
	object, _ := body.(map[string]any)
	object = maps.Clone(object)
	delete(object, "status")
	return object
}

// changedByClock reports whether the live generation is one higher than the recorded one because the server has
// set the timeAdded of a taint to the current second. In the recording, the update arrived in the same second
// as the creation, so timeAdded did not change. In a slow run, the update arrives in a later second.
func changedByClock(recorded any, live map[string]any) bool {
	want, wantOK := generationOf(recorded)
	got, gotOK := generationOf(live)
	metadata, _ := live["metadata"].(map[string]any)
	created, err := time.Parse(time.RFC3339, fmt.Sprint(metadata["creationTimestamp"]))
	return wantOK && gotOK && got == want+1 && err == nil && hasTaintSince(live["spec"], created.Add(-time.Second))
}

// hasTaintSince reports whether a value contains, at any depth, a field timeAdded whose time is start or later.
func hasTaintSince(value any, start time.Time) bool {
	switch v := value.(type) {
	case map[string]any:
		if added, err := time.Parse(time.RFC3339, fmt.Sprint(v["timeAdded"])); err == nil && !added.Before(start) {
			return true
		}
		for _, field := range v {
			if hasTaintSince(field, start) {
				return true
			}
		}
	case []any:
		return slices.ContainsFunc(v, func(element any) bool { return hasTaintSince(element, start) })
	}
	return false
}

func generationOf(body any) (generation int64, ok bool) {
	object, _ := body.(map[string]any)
	metadata, _ := object["metadata"].(map[string]any)
	number, _ := metadata["generation"].(json.Number)
	generation, err := number.Int64()
	return generation, err == nil
}

// withGenerationOf returns a copy of object that has the generation of other.
func withGenerationOf(other any, object map[string]any) map[string]any {
	generation := other.(map[string]any)["metadata"].(map[string]any)["generation"]
	object = maps.Clone(object)
	metadata := maps.Clone(object["metadata"].(map[string]any))
	metadata["generation"] = generation
	object["metadata"] = metadata
	return object
}

// shortRejection is the short form in which rejections of updates were recorded.
type shortRejection struct {
	Code   int
	Reason string
	Causes []struct{ Reason, Message, Field string }
}

func compareShortRejections(c *Comparison, recorded Response, live liveResponse) {
	var short shortRejection
	if err := json.Unmarshal(recorded.Body, &short); err != nil {
		c.note("recording", "%v", err)
		return
	}
	want := rejection{Code: short.Code, Reason: short.Reason}
	want.Details.Causes = short.Causes
	var got rejection
	if err := json.Unmarshal(live.body, &got); err != nil {
		c.note("body", "%v", err)
		return
	}
	if want.Code != got.Code || want.Reason != got.Reason {
		c.note("status", "want %d %s, got %d %s: %s", want.Code, want.Reason, got.Code, got.Reason, got.Message)
		return
	}
	wanted, gotten := fieldsAndReasons(asVersion137(want.causes(c.Memory))), fieldsAndReasons(got.causes(NewMemory()))
	for cause, text := range wanted {
		if _, ok := gotten[cause]; !ok {
			c.note("cause missing", "%s", text)
		}
	}
	for cause, text := range gotten {
		if _, ok := wanted[cause]; !ok {
			c.note("cause not wanted", "%s", text)
		}
	}
	slices.Sort(c.Differences)
}

// fieldsAndReasons returns the causes, keyed by their field and reason without the message.
func fieldsAndReasons(causes []string) map[string]string {
	short := make(map[string]string, len(causes))
	for _, cause := range causes {
		key, colons := cause, 0
		for i := range cause {
			if cause[i] == ':' {
				if colons++; colons == 2 {
					key = cause[:i]
					break
				}
			}
		}
		short[key] = cause
	}
	return short
}
