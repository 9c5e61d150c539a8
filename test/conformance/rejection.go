package conformance

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
)

// compareVerdict compares the result of validation. Rejections are compared only by code, reason and causes, on
// which clients can rely; the order of the causes is ignored. Accepted objects are compared completely.
func compareVerdict(c *Comparison, step Step, got liveResponse) {
	want := step.Response
	ours := want.Status == 0 || want.Status == http.StatusInternalServerError // this server rejects such a request with its own message
	switch {
	case want.Status < http.StatusBadRequest && !ours && got.status < http.StatusBadRequest:
		compareResponse(c, step, got)
	case want.Status < http.StatusBadRequest && !ours:
		c.note("status", "want %d, got %d: %s", want.Status, got.status, statusMessage(got.body))
	case got.status < http.StatusBadRequest || ours:
		compareStatus(c, want, got.status)
	default:
		compareRejections(c, want, got)
	}
}

// compareConversation compares complete responses. If both servers reject the object as invalid, it compares
// only code, reason and causes: the order of the errors is undefined, and the messages contain internals of the
// recorded server.
func compareConversation(c *Comparison, step Step, got liveResponse) {
	if step.Response.Status == http.StatusUnprocessableEntity && got.status == http.StatusUnprocessableEntity {
		compareRejections(c, step.Response, got)
		return
	}
	compareResponse(c, step, got)
}

// rejection is the part of a Status on which clients can rely.
type rejection struct {
	Code    int
	Reason  string
	Message string
	Details struct {
		Causes []struct{ Reason, Message, Field string }
	}
}

// causes returns the sorted causes of a Status. It removes duplicates, because kube-apiserver validates
// metadata twice on update.
func (r *rejection) causes(m *Memory) []string {
	var causes []string
	for _, cause := range r.Details.Causes {
		if isOwnCause(cause.Reason) {
			continue
		}
		text := cause.Field + ": " + cause.Reason + ": " + withoutDump(cause.Message)
		causes = append(causes, withoutUnpromised(m.renamed(withoutVolatile(text, "…"))))
	}
	slices.Sort(causes)
	return slices.Compact(causes)
}

// asVersion137 replaces the 1.36 messages in causes with their 1.37 wording. It modifies causes.
func asVersion137(causes []string) []string {
	for i, cause := range causes {
		for _, change := range rewordings {
			if change.before.MatchString(cause) {
				causes[i] = change.before.ReplaceAllString(cause, change.after)
				break
			}
		}
	}
	return causes
}

// rewordings lists the messages that changed between 1.36, the version of the recordings, and 1.37. All
// recorded objects that are rejected because of an owner have exactly one owner.
var rewordings = []struct {
	before *regexp.Regexp
	after  string
}{
	{regexp.MustCompile(`^metadata\.ownerReferences\.apiVersion: FieldValueInvalid: Invalid value: "": version must not be empty$`),
		`metadata.ownerReferences[0].apiVersion: FieldValueRequired: Required value: must not be empty`},
	{regexp.MustCompile(`^metadata\.ownerReferences\.apiVersion: FieldValueInvalid: (.*): version must not be empty$`),
		`metadata.ownerReferences[0].apiVersion: FieldValueInvalid: $1: must be <group>/<version> or <version>`},
	{regexp.MustCompile(`^metadata\.ownerReferences\.(kind|name|uid): FieldValueInvalid: Invalid value: "": must not be empty$`),
		`metadata.ownerReferences[0].$1: FieldValueRequired: Required value: must not be empty`},
	{regexp.MustCompile(`^metadata\.ownerReferences: (.* is disallowed from being an owner)$`), `metadata.ownerReferences[0]: $1`},
}

func compareRejections(c *Comparison, recorded Response, live liveResponse) {
	var want, got rejection
	if err := json.Unmarshal(recorded.Body, &want); err != nil {
		c.note("recording", "%v", err)
		return
	}
	if err := json.Unmarshal(live.body, &got); err != nil {
		c.note("body", "%v", err)
		return
	}
	c.rejectedNames(recorded.Body, live.body)
	if want.Code != got.Code || want.Reason != got.Reason {
		c.note("status", "want %d %s, got %d %s: %s", want.Code, want.Reason, got.Code, got.Reason, got.Message)
		return
	}
	wanted, gotten := asVersion137(want.causes(c.Memory)), got.causes(NewMemory())
	for _, cause := range wanted {
		if !slices.Contains(gotten, cause) {
			c.note("cause missing", "%s", cause)
		}
	}
	for _, cause := range gotten {
		if !slices.Contains(wanted, cause) {
			c.note("cause not wanted", "%s", cause)
		}
	}
}

// rejectedNames pairs generated names, because causes contain them.
func (c *Comparison) rejectedNames(want, got []byte) {
	wantValue, err := decodeJSON(want)
	if err != nil {
		return
	}
	gotValue, err := decodeJSON(got)
	if err != nil {
		return
	}
	w, wok := wantValue.(map[string]any)
	g, gok := gotValue.(map[string]any)
	if wok && gok {
		c.rejectedName(w, g)
	}
}

func statusMessage(body []byte) string {
	var status rejection
	if err := json.Unmarshal(body, &status); err != nil {
		return fmt.Sprintf("no Status: %v", err)
	}
	return status.Message
}

var dump = regexp.MustCompile(` value: [{\[]`)

// withoutDump removes the parts of a message that depend on the Go types of a release: the JSON of a rejected
// value, and all lines after the first, which contain a diff.
func withoutDump(message string) string {
	message, _, _ = strings.Cut(message, "\n")
	at := dump.FindStringIndex(message)
	if at == nil {
		return message
	}
	start := at[1] - 1
	d := json.NewDecoder(bytes.NewReader([]byte(message[start:])))
	var value json.RawMessage
	if d.Decode(&value) != nil {
		return message[:start] + "…"
	}
	return message[:start] + "…" + message[start+int(d.InputOffset()):]
}
