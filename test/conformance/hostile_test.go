package conformance

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"mainstay.dev/mainstay/test/testserver"
)

// TestHostileFields replaces each field of a valid object of each kind with invalid and extreme values. The
// server must accept or reject the object without an internal error. Each cause of a rejection must name a
// field in the changed part of the object.
func TestHostileFields(t *testing.T) {
	t.Parallel()
	skipShort(t, "TestMutatedRequests sends random changes")
	paths, err := filepath.Glob(filepath.Join(recordingsDir, "validation", "*.jsonl.gz"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no recordings: %v", err)
	}
	srv := testserver.New(t, testserver.Options{Flags: recordedFlags})
	replayer, err := NewReplayer(srv.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		recording := readRecording(t, "validation/"+strings.TrimSuffix(filepath.Base(path), ".jsonl.gz"))
		t.Run(strings.TrimPrefix(recording.Name, "validation/"), func(t *testing.T) {
			t.Parallel()
			for _, scenario := range recording.Scenarios {
				if strings.HasSuffix(scenario.Name, "/create-faults") {
					sendHostile(t, replayer, scenario)
				}
			}
		})
	}
}

// sendHostile replays a scenario up to its first dry run, and then sends the object of this step with each
// field changed.
func sendHostile(t *testing.T, replayer *Replayer, scenario Scenario) {
	for i, step := range scenario.Steps {
		if !strings.HasSuffix(step.Request.Path, "?dryRun=All") {
			continue
		}
		before := scenario
		before.Steps = scenario.Steps[:i+1]
		replayer.Replay(t.Context(), before, NewMemory())
		body, err := decodeJSON(step.Request.Body)
		if err != nil {
			t.Fatalf("decode a request of %s: %v", scenario.Name, err)
		}
		object := body.(map[string]any)
		for key := range object {
			if key == "apiVersion" || key == "kind" || key == "metadata" {
				continue
			}
			eachChange(object[key], func(place string, changed any) {
				hostile := maps.Clone(object)
				hostile[key] = changed
				checkRejection(t, replayer, step, key, key+place, hostile)
			})
		}
		break
	}
	if err := replayer.CleanUp(t.Context(), scenario); err != nil {
		t.Error(err)
	}
}

// hostileValues returns the values that replace a field with the given value.
func hostileValues(value any) []any {
	switch v := value.(type) {
	case string:
		return []any{"", strings.Repeat("a", 300), "Bad\u0001_", "-", "../..", "*", "10.0.0.300", "1e999999999", "é"}
	case json.Number, float64, int64:
		return []any{-1, 0, 1<<31 - 1, json.Number("9223372036854775807")}
	case bool:
		return []any{!v}
	case []any:
		if len(v) == 0 {
			return nil
		}
		return []any{[]any{}, append(slices.Clone(v), v[0])}
	case map[string]any:
		return []any{map[string]any{}}
	}
	return nil
}

// eachChange calls f for each replacement in a value. changed is a copy of the value with this replacement, and
// place is its path.
func eachChange(value any, f func(place string, changed any)) {
	for _, hostile := range hostileValues(value) {
		f("", hostile)
	}
	switch v := value.(type) {
	case map[string]any:
		for key := range v {
			eachChange(v[key], func(place string, changed any) {
				object := maps.Clone(v)
				object[key] = changed
				f("."+key+place, object)
			})
		}
	case []any:
		for i := range v {
			eachChange(v[i], func(place string, changed any) {
				list := slices.Clone(v)
				list[i] = changed
				f(fmt.Sprintf("[%d]%s", i, place), list)
			})
		}
	}
}

func checkRejection(t *testing.T, replayer *Replayer, step Step, part, place string, object map[string]any) {
	t.Helper()
	got, _, err := sendBody(t, replayer, step, object)
	if err != nil {
		t.Errorf("%s with another %s: %v", step.Request.Path, place, err)
		return
	}
	var status rejection
	switch {
	case got.status >= http.StatusInternalServerError:
		t.Errorf("%s with another %s: %d %s", step.Request.Path, place, got.status, got.body)
	case got.status != http.StatusUnprocessableEntity:
	case json.Unmarshal(got.body, &status) != nil || len(status.Details.Causes) == 0:
		t.Errorf("%s with another %s: no causes: %s", step.Request.Path, place, got.body)
	default:
		for _, cause := range status.Details.Causes {
			if isAbout(cause.Field, part) {
				return
			}
		}
		t.Errorf("%s with another %s: no cause is about it: %s", step.Request.Path, place, got.body)
	}
}

// isAbout reports whether a cause names a field in the given part of the object. kube-apiserver uses different
// paths for the taints of nodes, for names that are derived from the spec of definitions and APIServices, and
// for events.
func isAbout(field, part string) bool {
	switch {
	case strings.HasPrefix(field, part):
		return true
	case part == "spec":
		return strings.HasPrefix(field, "metadata.taints") || field == "metadata.name"
	case part == "regarding":
		return strings.HasPrefix(field, "involvedObject")
	}
	return false
}
