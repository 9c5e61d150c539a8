package conformance

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"os"
)

// Recording is one file of scenarios.
type Recording struct {
	Name      string // its path below the recordings' folder, without extensions: "generic/list"
	Scenarios []Scenario
}

// Scenario is a sequence of steps. A step can depend on earlier steps of the scenario, but not on other
// scenarios.
type Scenario struct {
	Name  string
	Steps []Step
}

// Step is one request with its response.
type Step struct {
	Scenario string   `json:"scenario"`
	Number   int      `json:"step"`
	Name     string   `json:"name"`
	Request  Request  `json:"request"`
	Response Response `json:"response"`
	// Reviews contains the requests to webhooks during the step, with their responses.
	Reviews []Review `json:"webhookReceived"`
}

// Review is one call of a webhook.
type Review struct {
	Request  Request  `json:"request"`
	Response Response `json:"response"`
}

// Request is a recorded request.
type Request struct {
	Method       string            `json:"method"`
	Path         string            `json:"path"` // with the query, as sent
	Headers      map[string]string `json:"headers"`
	Body         json.RawMessage   `json:"body"`
	BodyEncoding string            `json:"bodyEncoding"`
	BodyFrom     *BodyFrom         `json:"bodyFrom"`
}

// Response is a recorded response. Status 0 means that the server panicked and closed the
// connection.
type Response struct {
	Status       int             `json:"status"`
	Headers      map[string]any  `json:"headers"` // a string, or a list of strings if the header occurs several times
	Body         json.RawMessage `json:"body"`
	BodyEncoding string          `json:"bodyEncoding"`
	BodyFrom     *BodyFrom       `json:"bodyFrom"`
	Events       []Event         `json:"events"`
	Note         string          `json:"note"`
}

// BodyFrom describes a body as the body of another step of the scenario with a JSON patch applied.
type BodyFrom struct {
	Step  int             `json:"step"`
	Patch json.RawMessage `json:"patch"`
}

// Event is one watch event.
type Event struct {
	Type   string          `json:"type"`
	Object json.RawMessage `json:"object"`
}

// HeaderValues returns the recorded values of a header. The result is empty if the header was not recorded.
func (r Response) HeaderValues(name string) []string {
	switch v := r.Headers[name].(type) {
	case string:
		return []string{v}
	case []any:
		values := make([]string, 0, len(v))
		for _, one := range v {
			values = append(values, fmt.Sprint(one))
		}
		return values
	}
	return nil
}

// ReadRecording reads a gzip-compressed file of JSON lines.
func ReadRecording(name, path string) (Recording, error) {
	f, err := os.Open(path)
	if err != nil {
		return Recording{}, err
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return Recording{}, fmt.Errorf("read %s: %w", path, err)
	}
	scenarios, err := readScenarios(z)
	if err != nil {
		return Recording{}, fmt.Errorf("read %s: %w", path, err)
	}
	return Recording{Name: name, Scenarios: scenarios}, nil
}

func readScenarios(r io.Reader) ([]Scenario, error) {
	var scenarios []Scenario
	lines := bufio.NewReaderSize(r, 1<<20)
	for number := 1; ; number++ {
		line, err := lines.ReadBytes('\n')
		if len(bytes.TrimSpace(line)) > 0 {
			var step Step
			if err := json.Unmarshal(line, &step); err != nil {
				return nil, fmt.Errorf("line %d: %w", number, err)
			}
			if n := len(scenarios); n == 0 || scenarios[n-1].Name != step.Scenario {
				scenarios = append(scenarios, Scenario{Name: step.Scenario})
			}
			last := &scenarios[len(scenarios)-1]
			last.Steps = append(last.Steps, step)
		}
		if err == io.EOF {
			return scenarios, nil
		}
		if err != nil {
			return nil, err
		}
	}
}
