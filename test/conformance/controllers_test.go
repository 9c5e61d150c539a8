package conformance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"mainstay.dev/mainstay/test/testserver"
)

// controllersTimeout is the maximum time to wait for the effect of a controller.
const controllersTimeout = time.Minute

// TestControllers replays recordings of kube-controller-manager for those of its controllers that also run in
// this server. Controllers are asynchronous. Therefore, a GET is repeated until its response matches, and the
// events of a watch are compared separately for each object.
func TestControllers(t *testing.T) {
	t.Parallel()
	srv := testserver.New(t, testserver.Options{Flags: []string{"--service-cluster-ip-range=10.96.0.0/12"}})
	for _, scenario := range readRecording(t, "controllers/loops").Scenarios {
		t.Run(scenario.Name, func(t *testing.T) {
			t.Parallel()
			replayer, err := NewReplayer(srv.RESTConfig())
			if err != nil {
				t.Fatal(err)
			}
			replayControllers(t, replayer, scenario)
		})
	}
}

// knownMismatches contains the steps whose responses differ from the recording, with the reason for the
// difference.
var knownMismatches = map[string]string{
	"namespace-deletion 7":       "the recorder sent its request before the controller acted",
	"namespace-deletion 10":      "the controller may have marked the object by then",
	"cluster-role-aggregation 1": "the part may be deleted before the controller has processed it",
	"token-secret 2":             "the account may be deleted before the controller has processed its secret",
	"cluster-role-aggregation 5": "the recorded server is a fork, whose roles have other rules",
	"cluster-role-aggregation 6": "the recorded server is a fork, whose roles have other rules",
}

func replayControllers(t *testing.T, r *Replayer, scenario Scenario) {
	ctx, cancel := context.WithTimeout(t.Context(), 3*controllersTimeout)
	defer cancel()
	memory := NewMemory()
	watches := map[int]*openWatch{}
	for i, step := range scenario.Steps {
		if isWatch(step) {
			resp, err := r.send(ctx, scenario, step, memory)
			if err != nil {
				t.Fatalf("start the watch of step %d %s: %v", step.Number, step.Name, err)
			}
			watches[i] = follow(step, resp)
			defer watches[i].close()
			continue
		}
		var differences []string
		testserver.Eventually(t, controllersTimeout, func() error {
			var err error
			if differences, err = r.tryStep(ctx, scenario, step, memory); err == nil && len(differences) > 0 && step.Request.Method == http.MethodGet {
				err = errors.New(strings.Join(differences, "\n"))
			}
			if err != nil {
				return fmt.Errorf("%d %s: %w", step.Number, step.Name, err)
			}
			return nil
		})
		for _, difference := range differences {
			t.Errorf("step %d %s: %s", step.Number, step.Name, difference)
		}
		if step.Request.Method == http.MethodPost && changesDefinitions(step) {
			if err := r.AwaitDefinitions(ctx); err != nil {
				t.Fatal(err)
			}
		}
	}
	for i, watch := range watches {
		if knownMismatches[fmt.Sprint(scenario.Name, " ", scenario.Steps[i].Number)] != "" {
			continue
		}
		if err := watch.awaitObjects(); err != nil {
			t.Errorf("watch of step %d %s: %v", scenario.Steps[i].Number, scenario.Steps[i].Name, err)
		}
	}
}

// tryStep sends a request and returns the differences between its response and the recorded one. It returns an
// error for an unexpected status.
func (r *Replayer) tryStep(ctx context.Context, scenario Scenario, step Step, memory *Memory) ([]string, error) {
	resp, err := r.send(ctx, scenario, step, memory)
	if err != nil {
		return nil, err
	}
	got, err := readAnswer(resp)
	if err != nil {
		return nil, err
	}
	if got.status != step.Response.Status {
		return nil, fmt.Errorf("%d %.500s", got.status, got.body)
	}
	if step.Request.Method != http.MethodGet {
		compareResponse(&Comparison{Memory: memory}, step, got) // records generated values
	}
	if knownMismatches[fmt.Sprint(scenario.Name, " ", step.Number)] != "" {
		return nil, nil
	}
	return maskedDifferences(step.Response.Body, got.body), nil
}

// maskedDifferences returns the differences between two bodies, ignoring generated values.
func maskedDifferences(want, got json.RawMessage) []string {
	c := &Comparison{Memory: NewMemory()}
	compareRaw(c, "", masked(want), masked(got))
	return c.Differences
}

// invented matches generated values in JSON that the pattern volatile does not match.
var invented = []*regexp.Regexp{
	regexp.MustCompile(`"(?:resourceVersion|continue)":\s*"\d+"`),
	regexp.MustCompile(`"LS0tLS1CRUdJTi[A-Za-z0-9+/=]*"`), // a PEM block in base64
	regexp.MustCompile(`-----BEGIN [^"]*-----`),
	regexp.MustCompile(`"ZXlK[A-Za-z0-9+/=]*"`), // a token in base64
	regexp.MustCompile(`"X509SHA256=[0-9a-f]{64}"`),
}

// masked replaces all generated values in a body with constants.
func masked(text json.RawMessage) json.RawMessage {
	s := withoutVolatile(string(text), "…")
	for _, pattern := range invented {
		s = pattern.ReplaceAllStringFunc(s, func(found string) string {
			if key, _, ok := strings.Cut(found, ":"); ok && strings.HasPrefix(found, `"`) {
				return key + `:"1"`
			}
			if strings.HasPrefix(found, `"`) {
				return `"…"`
			}
			return "…"
		})
	}
	return json.RawMessage(s)
}

// awaitObjects waits until the watch has sent the recorded events of each object.
func (w *openWatch) awaitObjects() error {
	recorded, err := recordedEvents(w.step.Response)
	if err != nil {
		return err
	}
	want := byObject(withoutBookmarks(recorded))
	var events []Event
	timeout := time.After(controllersTimeout)
	for {
		differences := missingEvents(want, byObject(events))
		if len(differences) == 0 {
			return nil
		}
		select {
		case line := <-w.lines:
			var event Event
			if err := json.Unmarshal(line, &event); err != nil {
				return fmt.Errorf("read an event: %w", err)
			}
			events = append(events, withoutBookmarks([]Event{event})...)
		case err := <-w.ended:
			return fmt.Errorf("the stream ended (%w), but\n%s", err, strings.Join(differences, "\n"))
		case <-timeout:
			return fmt.Errorf("still\n%s", strings.Join(differences, "\n"))
		}
	}
}

// byObject groups events by the name of their object.
func byObject(events []Event) map[string][]Event {
	sorted := map[string][]Event{}
	for _, event := range events {
		var object struct {
			Metadata struct{ Namespace, Name string }
		}
		_ = json.Unmarshal(event.Object, &object) // an object without a name has the key "/"
		name := object.Metadata.Namespace + "/" + object.Metadata.Name
		sorted[name] = append(sorted[name], event)
	}
	return sorted
}

// missingEvents returns the recorded events that were not received, by object. Additional events are allowed:
// kube-controller-manager waits for seconds in situations in which this server continues and reports its
// progress.
func missingEvents(want, got map[string][]Event) []string {
	var differences []string
	for name, events := range want {
		found := 0
		for _, event := range got[name] {
			if found < len(events) && event.Type == events[found].Type && len(maskedDifferences(events[found].Object, event.Object)) == 0 {
				found++
			}
		}
		if found == len(events) {
			continue
		}
		differences = append(differences, fmt.Sprintf("%s: event %d, %s, has not come", name, found, events[found].Type))
		if found < len(got[name]) {
			near := got[name][found]
			differences = append(differences, fmt.Sprintf("%s: there is %s, with differences %q", name, near.Type, maskedDifferences(events[found].Object, near.Object)))
		}
	}
	slices.Sort(differences)
	return differences
}
