package conformance

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// withoutCertificate is the remark for a request that the client sent without a certificate.
const withoutCertificate = "no client certificate"

// withCertificate is the prefix of the remark for a request that the client sent with a certificate. The
// subject follows it.
const withCertificate = "client certificate "

// remark is the key of the remark about the client among the headers of a recorded request. It is not a real
// header.
const remark = "(client)"

const impersonateGroup = "Impersonate-Group"

// withoutHeader is the recorded value of a header that the client did not send.
const withoutHeader = "-"

// quotedRevision matches the resourceVersions in a body, both in fields and in the values of a JSON patch. The
// pattern starts with a literal, so that package regexp finds candidates with a fast text search.
var quotedRevision = regexp.MustCompile(`(resourceVersion(?:\\?"?:\s*\\?"?|","value":"))(\d+)`)

// RewriteBody replaces the values of earlier recorded responses in a request body with the live values.
func (m *Memory) RewriteBody(body []byte) []byte {
	body = []byte(m.RewriteText(string(body)))
	body = quotedRevision.ReplaceAllFunc(body, func(match []byte) []byte {
		parts := quotedRevision.FindSubmatch(match)
		return append(bytes.Clone(parts[1]), m.Revision(string(parts[2]))...)
	})
	if !bytes.Contains(body, []byte("odePort")) {
		return body
	}
	return quotedPort.ReplaceAllFunc(body, func(match []byte) []byte {
		parts := quotedPort.FindSubmatch(match)
		return append(bytes.Clone(parts[1]), m.Value(string(parts[2]))...)
	})
}

// RewriteText replaces the recorded uids, times, hashes and names in a text with the live values.
func (m *Memory) RewriteText(text string) string {
	return m.renamed(replaceVolatile(text, m.Value))
}

// RewritePath rewrites a path and its query like RewriteText. It preserves the order of the parameters and
// their escapes.
func (m *Memory) RewritePath(path string) string {
	path, query, hasQuery := strings.Cut(path, "?")
	path = m.RewriteText(path)
	if !hasQuery {
		return path
	}
	parameters := strings.Split(query, "&")
	for i, parameter := range parameters {
		name, value, _ := strings.Cut(parameter, "=")
		decoded, err := url.QueryUnescape(value)
		if err != nil {
			continue
		}
		live := m.Value(decoded)
		switch name {
		case "resourceVersion":
			live = m.Revision(decoded)
		case "fieldSelector", "labelSelector", "hash":
			live = m.RewriteText(decoded)
		}
		if live != decoded {
			parameters[i] = name + "=" + url.QueryEscape(live)
		}
	}
	return path + "?" + strings.Join(parameters, "&")
}

// quotedPort matches the fields of a body that contain allocated ports.
var quotedPort = regexp.MustCompile(`("(?:nodePort|healthCheckNodePort)":\s*)(\d+)`)

// jsonStrings lists the names of the steps whose body is a JSON string. In all other steps, a recorded string
// is the text of the body.
var jsonStrings = []string{"string at top", "merge patch string"}

// recordedBody returns the exact bytes of the body that the client sent.
func recordedBody(scenario Scenario, step Step) ([]byte, error) {
	r := step.Request
	switch {
	case r.BodyFrom != nil:
		return patchedBody(scenario, *r.BodyFrom)
	case len(r.Body) == 0:
		return nil, nil
	case r.Body[0] != '"' || slices.Contains(jsonStrings, step.Name):
		return r.Body, nil
	}
	var text string
	if err := json.Unmarshal(r.Body, &text); err != nil {
		return nil, err
	}
	if r.BodyEncoding == "base64" {
		return base64.StdEncoding.DecodeString(text)
	}
	return []byte(text), nil
}

// newHTTPRequest returns the request of a step for the server at base. path and body must already be rewritten.
func newHTTPRequest(base, path string, r Request, body []byte, memory *Memory) (*http.Request, error) {
	u, err := url.Parse(base)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequest(r.Method, base, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("make the request: %w", err)
	}
	if body == nil {
		req.Body, req.ContentLength = nil, 0
	}
	raw, query, _ := strings.Cut(path, "?")
	// Opaque preserves the path exactly as recorded, including escapes, double slashes and dots.
	req.URL = &url.URL{Scheme: u.Scheme, Host: u.Host, Opaque: "//" + u.Host + raw, RawQuery: query}
	req.Header.Set("User-Agent", "recorder/1.0")
	req.Header.Set("Accept", "application/json")
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	for name, value := range r.Headers {
		switch {
		case value == withoutHeader:
			req.Header.Del(name)
		case name == impersonateGroup: // several headers, recorded as one
			req.Header[name] = strings.Split(value, ", ")
		case name != remark:
			req.Header.Set(name, memory.RewriteText(value))
		}
	}
	return req, nil
}
