package conformance

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"

	"mainstay.dev/mainstay/internal/admission"
)

// liveResponse is a response of the live server.
type liveResponse struct {
	status int
	header http.Header
	body   []byte
}

// deprecatedSince is part of the warnings about versions that 1.37 deprecates. The recorded 1.36 server does
// not send these warnings.
const deprecatedSince = " is deprecated in v1.37+"

// ownWarning is the end of this server's warnings about deletions that wait for a disabled controller.
// kube-apiserver has no such warnings.
const ownWarning = `no kube-controller-manager has its lease in kube-system"`

func readAnswer(resp *http.Response) (liveResponse, error) {
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return liveResponse{}, fmt.Errorf("read response: %w", err)
	}
	return liveResponse{status: resp.StatusCode, header: resp.Header, body: body}, nil
}

// comparedHeaders lists headers whose values are always compared. The recorder stored these headers for every
// response.
var comparedHeaders = []string{"Warning", "Retry-After", "Location", "Allow", "Www-Authenticate"}

// exactHeaders lists headers whose values are compared if they were recorded.
var exactHeaders = []string{"Cache-Control", "Accept-Ranges", "Content-Encoding"}

// presentHeaders lists headers that must be present if they were recorded. Their values differ in every
// response.
var presentHeaders = []string{
	"Etag", "Audit-Id", "Date", "Content-Length", "X-Kubernetes-Pf-Flowschema-Uid", "X-Kubernetes-Pf-Prioritylevel-Uid",
	"Last-Modified",
}

// compareResponse compares the status, headers and body of two responses, but no watch events.
func compareResponse(c *Comparison, step Step, got liveResponse) {
	want := step.Response
	clientsMistake := compareStatus(c, want, got.status)
	compareHeaders(c, want, got)
	if len(want.Body) == 0 || want.Status == 0 { // not recorded because of its size, or empty
		return
	}
	mediaType := contentType(want)
	wantBody, err := decodeRecorded(want, mediaType)
	if err != nil {
		c.note("recording", "%v", err)
		return
	}
	gotBody, err := decodeBody(got.header.Get("Content-Type"), got.body)
	if err != nil {
		c.note("body", "%v", err)
		return
	}
	if clientsMistake {
		wantBody, gotBody = messageAlone(wantBody), messageAlone(gotBody)
	}
	if want.Note == singleGroupNote {
		gotBody = onlyGroups(gotBody, wantBody)
	}
	c.Values("", withoutDuplicateCauses(wantBody), withoutDuplicateCauses(withoutOwnCause(gotBody)))
}

// isOwnCause reports whether only this server adds causes with the given reason to a Status. These causes name
// the admission plugin, webhook or policy expression that rejected a request.
func isOwnCause(reason any) bool {
	return reason == string(admission.CausePlugin) || reason == string(admission.CauseWebhook) || reason == string(admission.CausePolicy)
}

// withoutOwnCause returns a Status without the causes that only this server adds.
func withoutOwnCause(body any) any {
	status, _ := body.(map[string]any)
	details, _ := status["details"].(map[string]any)
	causes, _ := details["causes"].([]any)
	kept := slices.DeleteFunc(slices.Clone(causes), func(cause any) bool {
		c, ok := cause.(map[string]any)
		return ok && isOwnCause(c["reason"])
	})
	if len(kept) == len(causes) {
		return body
	}
	status, details = maps.Clone(status), maps.Clone(details)
	if details["causes"] = kept; len(kept) == 0 {
		delete(details, "causes")
	}
	if status["details"] = details; len(details) == 0 {
		delete(status, "details")
	}
	return status
}

// singleGroupNote is the recorder's note on an aggregated discovery document from which all groups except those
// of the scenario were removed.
const singleGroupNote = "only the item of the group is kept"

// onlyGroups returns an aggregated discovery document without the members and groups that other does not
// contain.
func onlyGroups(body, other any) any {
	names := map[any]bool{}
	for _, item := range itemsOf(other) {
		names[groupName(item)] = true
	}
	document, ok := body.(map[string]any)
	if !ok {
		return body
	}
	wanted, _ := other.(map[string]any)
	document = maps.Clone(document)
	maps.DeleteFunc(document, func(key string, _ any) bool { _, kept := wanted[key]; return !kept })
	document["items"] = slices.DeleteFunc(slices.Clone(itemsOf(body)), func(item any) bool { return !names[groupName(item)] })
	return document
}

func itemsOf(list any) []any {
	document, _ := list.(map[string]any)
	items, _ := document["items"].([]any)
	return items
}

func groupName(item any) any {
	group, _ := item.(map[string]any)
	metadata, _ := group["metadata"].(map[string]any)
	return metadata["name"]
}

// withoutDuplicateCauses returns a Status without repeated causes. On update, kube-apiserver validates metadata
// twice, and this server validates it once.
func withoutDuplicateCauses(body any) any {
	status, _ := body.(map[string]any)
	details, _ := status["details"].(map[string]any)
	causes, _ := details["causes"].([]any)
	if status["kind"] != "Status" || len(causes) < 2 {
		return body
	}
	var once []any
	for _, cause := range causes {
		if !slices.ContainsFunc(once, func(other any) bool { return reflect.DeepEqual(cause, other) }) {
			once = append(once, cause)
		}
	}
	status, details = maps.Clone(status), maps.Clone(details)
	status["details"], details["causes"] = details, once
	return status
}

// serverFaults lists parts of the messages of recorded responses with status 500 whose request is valid, so
// that 500 is the expected status.
var serverFaults = []string{
	"no preferred addresses found",
	"conversion webhook for ",
	"failed calling webhook ",
	"operation does not apply: doc is missing path", // of a webhook's patch
	"cannot unmarshal number into Go struct field ConfigMap.data",
}

// compareStatus compares status codes. It reports whether the recorded server failed on an invalid request,
// that is, responded with 500 or closed the connection. In this case, any status from 400 to 499 is correct.
func compareStatus(c *Comparison, want Response, got int) (clientsMistake bool) {
	clientsMistake = want.Status == 0 || want.Status == http.StatusInternalServerError && !slices.ContainsFunc(serverFaults,
		func(message string) bool { return strings.Contains(string(want.Body), message) })
	switch {
	case clientsMistake && (got < 400 || got > 499):
		c.note("status", "want 4xx (the recorded server answered %d to a mistake of the client), got %d", want.Status, got)
	case !clientsMistake && want.Status != got:
		c.note("status", "want %d, got %d", want.Status, got)
	}
	return clientsMistake
}

// messageAlone returns only the message of a Status, or the value itself if it is not a JSON object.
func messageAlone(status any) any {
	if s, ok := status.(map[string]any); ok {
		return s["message"]
	}
	return status
}

// contentType returns the media type of a recorded response. The recorder did not store application/json.
func contentType(r Response) string {
	if values := r.HeaderValues("Content-Type"); len(values) > 0 {
		return values[0]
	}
	return "application/json"
}

// withoutOwnWarnings removes the warnings that the recorded server cannot send.
func withoutOwnWarnings(warnings []string) []string {
	return slices.DeleteFunc(slices.Clone(warnings), func(text string) bool {
		return strings.HasSuffix(text, ownWarning) || strings.Contains(text, deprecatedSince)
	})
}

func compareHeaders(c *Comparison, want Response, got liveResponse) {
	if len(want.Body) > 0 || len(want.Events) > 0 {
		if w, g := contentType(want), got.header.Get("Content-Type"); w != g {
			c.note("header Content-Type", "want %q, got %q", w, g)
		}
	}
	for _, name := range comparedHeaders {
		values := got.header.Values(name)
		if name == "Warning" {
			values = withoutOwnWarnings(values)
		}
		compareHeader(c, name, want.HeaderValues(name), values)
	}
	for _, name := range exactHeaders {
		if values := want.HeaderValues(name); len(values) > 0 {
			compareHeader(c, name, values, got.header.Values(name))
		}
	}
	for _, value := range want.HeaderValues("Vary") { // the server may send additional values
		if !slices.Contains(got.header.Values("Vary"), value) {
			c.note("header Vary", "want %q, got %q", value, got.header.Values("Vary"))
		}
	}
	for _, name := range presentHeaders {
		values := want.HeaderValues(name)
		if len(values) == 0 {
			continue
		}
		if got.header.Get(name) == "" {
			c.note("header "+name, "missing")
		}
		c.Memory.SameText(values[0], got.header.Get(name)) // later requests quote an Etag
	}
}

func compareHeader(c *Comparison, name string, want, got []string) {
	if !slices.EqualFunc(want, got, c.Memory.SameText) {
		c.note("header "+name, "want %q, got %q", want, got)
	}
}
