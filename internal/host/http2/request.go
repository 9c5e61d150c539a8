package http2

import (
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"golang.org/x/net/http/httpguts"
	h2 "golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// requestHead is a decoded request header. The connection reuses the memory of the requestHead, so the stream
// copies the request.
type requestHead struct {
	request         http.Request
	length          int64 // length of the body; -1 if unknown
	expectsContinue bool  // the client expects 100 Continue
	malformed       bool  // the stream must be reset
	// rejection responds instead of the server's handler, for example if the header is too long; usually
	// nil.
	rejection http.Handler
}

// parse converts a header into a request. The result is owned by the connection and valid until the
// next call.
func (c *conn) parse(f *h2.MetaHeadersFrame) *requestHead {
	c.head = requestHead{length: -1}
	r := &c.head
	if f.Truncated {
		r.request.Body, r.rejection = http.NoBody, http.HandlerFunc(rejectLongHeader)
		return r
	}
	header := headerOf(f)
	method, authority := f.PseudoValue("method"), f.PseudoValue("authority")
	authority, ok := hostOf(header, authority)
	target, wellFormed := targetOf(f, method, authority)
	if r.malformed = !ok || !wellFormed; r.malformed {
		return r
	}
	if err := checkHopByHop(header); err != nil {
		r.rejection = rejectHeader(err)
	}
	if httpguts.HeaderValuesContainsToken(header["Expect"], "100-continue") {
		delete(header, "Expect")
		r.expectsContinue = true
	}
	if cookies := header["Cookie"]; len(cookies) > 1 {
		header["Cookie"] = []string{strings.Join(cookies, "; ")}
	}
	r.request = http.Request{
		Method:     method,
		URL:        target,
		RequestURI: f.PseudoValue("path"),
		Proto:      "HTTP/2.0",
		ProtoMajor: 2,
		Header:     header,
		Trailer:    announcedTrailers(header),
		Host:       authority,
		RemoteAddr: c.remote,
		TLS:        c.tls,
		Body:       http.NoBody,
	}
	if method == http.MethodConnect {
		r.request.RequestURI = authority
	}
	length, ok := lengthOf(header)
	switch {
	case !ok, f.StreamEnded() && length > 0:
		r.malformed = true
	case !f.StreamEnded():
		r.length = length
		r.request.ContentLength = length
	}
	return r
}

// expectedNames is the maximum initial size of the map for a header.
const expectedNames = 16

// headerOf returns the header without the pseudo fields. All values share one slice.
func headerOf(f *h2.MetaHeadersFrame) http.Header {
	fields := f.RegularFields()
	header := make(http.Header, min(len(fields), expectedNames))
	values := make([]string, len(fields))
	for i, field := range fields {
		key := http.CanonicalHeaderKey(field.Name)
		if _, ok := header[key]; ok {
			return repeatedHeaderOf(fields, values)
		}
		values[i] = field.Value
		header[key] = values[i : i+1 : i+1]
	}
	return header
}

// repeatedHeaderOf is like headerOf, but supports repeated field names. It first counts the fields of each
// name, so that the values of each name can be stored next to each other in the slice values.
func repeatedHeaderOf(fields []hpack.HeaderField, values []string) http.Header {
	header := make(http.Header, min(len(fields), expectedNames))
	for _, field := range fields {
		key := http.CanonicalHeaderKey(field.Name)
		header[key] = values[:len(header[key])+1]
	}
	next := 0
	for key, counted := range header {
		end := next + len(counted)
		header[key] = values[next:next:end]
		next = end
	}
	for _, field := range fields {
		key := http.CanonicalHeaderKey(field.Name)
		header[key] = append(header[key], field.Value)
	}
	return header
}

// hostOf returns the host of the request, which is the authority or the Host header. It returns false if they
// differ or are invalid. It removes the Host header.
func hostOf(header http.Header, authority string) (string, bool) {
	hosts := header["Host"]
	if len(hosts) == 1 && authority == "" {
		authority = hosts[0]
	}
	if len(hosts) > 1 || len(hosts) == 1 && hosts[0] != authority {
		return "", false
	}
	delete(header, "Host")
	return authority, !strings.Contains(authority, "@") && (authority == "" || httpguts.ValidHostHeader(authority))
}

// targetOf returns the URL of the request. It returns false if the URL or the pseudo fields are invalid (RFC
// 9113, sections 8.3.1 and 8.5).
func targetOf(f *h2.MetaHeadersFrame, method, authority string) (*url.URL, bool) {
	path, scheme := f.PseudoValue("path"), f.PseudoValue("scheme")
	if f.PseudoValue("protocol") != "" {
		return nil, false // extended CONNECT has not been offered
	}
	if method == http.MethodConnect {
		return &url.URL{Host: authority}, path == "" && scheme == "" && authority != ""
	}
	if method == "" || scheme != "https" && scheme != "http" || !strings.HasPrefix(path, "/") && path != "*" {
		return nil, false
	}
	target, err := url.ParseRequestURI(path)
	return target, err == nil
}

// checkHopByHop returns an error for connection-specific fields (RFC 9113, section 8.2.2).
func checkHopByHop(header http.Header) error {
	for _, key := range hopByHop() {
		if _, ok := header[key]; ok {
			return errors.New("request header " + strconv.Quote(key) + " is not valid in HTTP/2")
		}
	}
	if te, ok := header["Te"]; ok && (len(te) != 1 || te[0] != "trailers" && te[0] != "") {
		return errors.New(`request header "TE" may only be "trailers" in HTTP/2`)
	}
	return nil
}

func hopByHop() [5]string {
	return [...]string{"Connection", "Proxy-Connection", "Transfer-Encoding", "Upgrade", "Keep-Alive"}
}

// announcedTrailers removes the Trailer field from the header. It returns the trailers that the field
// announces, without values.
func announcedTrailers(header http.Header) http.Header {
	values, ok := header["Trailer"]
	if !ok {
		return nil
	}
	delete(header, "Trailer")
	var trailer http.Header
	for _, value := range values {
		for name := range strings.SplitSeq(value, ",") {
			key := http.CanonicalHeaderKey(strings.TrimSpace(name))
			if key == "Transfer-Encoding" || key == "Trailer" || key == "Content-Length" {
				continue
			}
			if trailer == nil {
				trailer = make(http.Header)
			}
			trailer[key] = nil
		}
	}
	return trailer
}

// lengthOf returns the declared length of the body, or -1 if no length is declared. It returns false if the
// values differ or are not a valid number, because a proxy could disagree about the end of such a request.
func lengthOf(header http.Header) (int64, bool) {
	values := header["Content-Length"]
	if len(values) == 0 {
		return -1, true
	}
	for _, other := range values[1:] {
		if other != values[0] {
			return 0, false
		}
	}
	n, err := strconv.ParseUint(values[0], 10, 63)
	return int64(n), err == nil
}

func rejectLongHeader(w http.ResponseWriter, _ *http.Request) {
	w.WriteHeader(http.StatusRequestHeaderFieldsTooLarge)
	_, _ = w.Write([]byte("<h1>HTTP Error 431</h1><p>Request Header Field(s) Too Large</p>"))
}

func rejectHeader(err error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, err.Error(), http.StatusBadRequest)
	})
}
