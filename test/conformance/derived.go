package conformance

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
)

// Patterns for descriptions. A description replaces a body, or a part of a body, that was too large to record.
var (
	description = regexp.MustCompile(`"(?:(.) repeated (\d+) times|(\d+) nested empty lists)"`)
	addedOps    = regexp.MustCompile(`^(\d+) add operations$`)
)

// patchedBody returns the request body of another step with a patch applied.
func patchedBody(scenario Scenario, from BodyFrom) ([]byte, error) {
	if from.Step == 0 {
		return describedWhole(scenario, from.Patch)
	}
	base, err := bodyOfStep(scenario, from.Step)
	if err != nil {
		return nil, err
	}
	return applyPatch(base, from.Patch)
}

// patchedResponse returns the recorded response of another step with a patch applied.
func patchedResponse(scenario Scenario, from BodyFrom) ([]byte, error) {
	for _, step := range scenario.Steps {
		if step.Number == from.Step {
			return applyPatch(step.Response.Body, from.Patch)
		}
	}
	return nil, fmt.Errorf("scenario %s has no step %d", scenario.Name, from.Step)
}

func applyPatch(base, operations []byte) ([]byte, error) {
	patch, err := jsonpatch.DecodePatch(operations)
	if err != nil {
		return nil, fmt.Errorf("read the patch of a body: %w", err)
	}
	body, err := patch.Apply(base)
	if err != nil {
		return nil, fmt.Errorf("patch a body: %w", err)
	}
	if !bytes.Contains(body, []byte(" repeated ")) && !bytes.Contains(body, []byte(" nested empty lists")) {
		return body, nil
	}
	return description.ReplaceAllFunc(body, described), nil
}

// bodyOfStep returns the request body of a step or, for a GET, the recorded response body.
func bodyOfStep(scenario Scenario, number int) ([]byte, error) {
	for _, step := range scenario.Steps {
		if step.Number != number {
			continue
		}
		if step.Request.Method == "GET" {
			return step.Response.Body, nil
		}
		return recordedBody(scenario, step)
	}
	return nil, fmt.Errorf("scenario %s has no step %d", scenario.Name, number)
}

// described returns the JSON value that a quoted description stands for.
func described(quoted []byte) []byte {
	m := description.FindSubmatch(quoted)
	if len(m[1]) > 0 {
		return slices.Concat([]byte(`"`), bytes.Repeat(m[1], number(m[2])), []byte(`"`))
	}
	n := number(m[3])
	return slices.Concat(bytes.Repeat([]byte("["), n), bytes.Repeat([]byte("]"), n))
}

// number parses digits that a pattern has matched.
func number(digits []byte) int {
	n, err := strconv.Atoi(string(digits))
	if err != nil {
		panic(err) // unreachable: the pattern matches digits only
	}
	return n
}

// describedWhole returns the body that a description of a whole body stands for.
func describedWhole(scenario Scenario, patch json.RawMessage) ([]byte, error) {
	var operations []struct{ Value string }
	if err := json.Unmarshal(patch, &operations); err != nil {
		return nil, fmt.Errorf("read the description of a body: %w", err)
	}
	text := operations[0].Value
	if text == reviewedToken {
		return reviewOf(scenario, text)
	}
	m := addedOps.FindStringSubmatch(text)
	if m == nil {
		return nil, fmt.Errorf("no body is known for %q", text)
	}
	operation := []byte(`{"op":"add","path":"/metadata/labels","value":{}}`)
	operationsText := bytes.Repeat(append(operation, ','), number([]byte(m[1])))
	return slices.Concat([]byte("["), bytes.TrimSuffix(operationsText, []byte(",")), []byte("]")), nil
}
