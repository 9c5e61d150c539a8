package aggregated

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"mainstay.dev/mainstay/internal/egress"
	"mainstay.dev/mainstay/internal/egress/proxy"
	"mainstay.dev/mainstay/internal/request"
)

// server contains the transports and the discovery cache of an aggregated server. All registrations with the
// same address share a server. It is safe for concurrent use.
type server struct {
	address address
	source  *Source
	base    *url.URL

	// upgradeTransport uses only HTTP/1.1. It serves requests that upgrade the connection. If err is not nil,
	// the transports could not be created and must not be used.
	transport, upgradeTransport *http.Transport
	err                         error

	// suspected is set if a proxied request has failed since the last check.
	suspected atomic.Bool

	// mu is held while discovery is fetched. Proxied requests do not acquire it.
	mu        sync.Mutex
	cache     discoveryCache
	openAPIV2 v2Document
}

// newServer returns a server with its transports. If the transports cannot be created, each request to the
// server returns the error.
func (s *Source) newServer(at address) *server {
	target := egress.Target{
		Service: &at.service, Resolver: s.config.Resolver, CABundle: []byte(at.ca), Insecure: at.insecure,
		Certificate: s.config.Certificate, Dial: s.config.Dial,
	}
	out := &server{address: at, source: s, base: target.Base()}
	if out.transport, out.err = target.Transport(); out.err != nil {
		return out
	}
	target.HTTP1 = true
	if out.upgradeTransport, out.err = target.Transport(); out.err != nil {
		return out
	}
	out.transport.MaxResponseHeaderBytes, out.upgradeTransport.MaxResponseHeaderBytes = maxResponseHeader, maxResponseHeader
	return out
}

// maxResponseHeader is the maximum size of the headers of a response, in bytes.
const maxResponseHeader = 1 << 20

// close closes idle connections. Other connections are closed at the end of their requests.
func (s *server) close() {
	if s.err == nil {
		s.transport.CloseIdleConnections()
		s.upgradeTransport.CloseIdleConnections()
	}
}

// suspect triggers a check after a proxied request has failed.
func (s *server) suspect() {
	if s.suspected.CompareAndSwap(false, true) {
		s.source.triggerChecks()
	}
}

const (
	// userName is the user as which this server requests discovery and OpenAPI documents and checks
	// availability.
	userName     = "system:kube-aggregator"
	fetchTimeout = 5 * time.Second
	// maxResponse is the maximum size of the response body, in bytes.
	maxResponse = 64 << 20
)

// errUnexpectedStatus is wrapped by the errors for responses with a status other than 200.
var errUnexpectedStatus = errors.New("unexpected status")

// statusError is the error for a response with a status other than 200.
type statusError struct {
	url    string
	status int
}

func (e *statusError) Error() string { return fmt.Sprintf("bad status from %s: %d", e.url, e.status) }
func (e *statusError) Unwrap() error { return errUnexpectedStatus }

// fetchedResponse is the result of fetch.
type fetchedResponse struct {
	body        []byte
	contentType string
	etag        string
	// notModified is set if the document still has the ETag in the request. body is then empty.
	notModified bool
}

// fetch gets a document from the server, as userName. It sends a non-empty etag as If-None-Match. The error is
// a *statusError if the status is not 200 or 304.
func (s *server) fetch(ctx context.Context, path, accept, etag string) (*fetchedResponse, error) {
	if s.err != nil {
		return nil, s.err
	}
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	at := *s.base
	at.Path = path
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), nil)
	if err != nil {
		return nil, err
	}
	proxy.SetUser(r.Header, &request.User{Name: userName, Groups: []string{request.GroupMasters}})
	r.Header.Set("Accept", accept)
	if etag != "" {
		r.Header.Set("If-None-Match", etag)
	}
	response, err := s.transport.RoundTrip(r) // unlike http.Client, it does not follow redirects
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode == http.StatusNotModified && etag != "" {
		return &fetchedResponse{notModified: true, etag: etag}, nil
	}
	if response.StatusCode != http.StatusOK {
		_, _ = io.Copy(io.Discard, io.LimitReader(response.Body, 64<<10)) // so that the connection is reused
		return nil, &statusError{at.String(), response.StatusCode}
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, maxResponse+1))
	if err != nil {
		return nil, fmt.Errorf("read the response of %s: %w", at.String(), err)
	}
	if len(body) > maxResponse {
		return nil, fmt.Errorf("read the response of %s: it is longer than %d bytes", at.String(), maxResponse)
	}
	return &fetchedResponse{body: body, contentType: response.Header.Get("Content-Type"), etag: response.Header.Get("Etag")}, nil
}

// isNotServed reports whether err means that the server does not serve the path or the media type.
func isNotServed(err error) bool {
	var status *statusError
	return errors.As(err, &status) && (status.status == http.StatusNotFound || status.status == http.StatusNotAcceptable)
}
