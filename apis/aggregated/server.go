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

	"mainstay.dev/mainstay/egress"
)

// server is one that others are registered for: how to talk to it, and what it
// said last. It is shared by its registrations.
type server struct {
	address address
	source  *Source
	base    *url.URL

	// plain carries requests, tunnel those that change the protocol, which
	// HTTP/2 cannot; err is why there are none.
	plain, tunnel *http.Transport
	err           error

	// suspected: a request could not be sent on since the server was last
	// looked at.
	suspected atomic.Bool

	// mu is held while the server is asked what it has; requests that are sent
	// on do not need it.
	mu   sync.Mutex
	said said
	spec spec
}

// newServer makes what it takes to talk to a server. Faults are told to those
// who do.
func (s *Source) newServer(at address) *server {
	target := egress.Target{
		Service: &at.service, Resolver: s.config.Resolver, CABundle: []byte(at.ca), Insecure: at.insecure,
		Certificate: s.config.Certificate,
	}
	out := &server{address: at, source: s, base: target.Base()}
	if out.plain, out.err = target.Transport(); out.err != nil {
		return out
	}
	target.HTTP1 = true
	if out.tunnel, out.err = target.Transport(); out.err != nil {
		return out
	}
	out.plain.MaxResponseHeaderBytes, out.tunnel.MaxResponseHeaderBytes = maxAnswerHeader, maxAnswerHeader
	return out
}

// maxAnswerHeader is how long the header of an answer may be.
const maxAnswerHeader = 1 << 20

// close lets go of connections that are not in use; those that are end with
// their requests.
func (s *server) close() {
	if s.err == nil {
		s.plain.CloseIdleConnections()
		s.tunnel.CloseIdleConnections()
	}
}

// suspect lets the server be looked at, because it did not answer a request.
func (s *server) suspect() {
	if s.suspected.CompareAndSwap(false, true) {
		s.source.wake()
	}
}

const (
	// aggregator is who this server is when it asks for itself.
	aggregator = "system:kube-aggregator"
	// askTimeout bounds each question.
	askTimeout = 5 * time.Second
	// maxAnswer is how much of an answer is read.
	maxAnswer = 64 << 20
)

// errUnanswered is wrapped by errors of servers that did not answer with 200.
var errUnanswered = errors.New("unexpected status")

// statusError is an answer of another status than 200.
type statusError struct {
	url    string
	status int
}

func (e *statusError) Error() string { return fmt.Sprintf("bad status from %s: %d", e.url, e.status) }
func (e *statusError) Unwrap() error { return errUnanswered }

// answer is what a server said.
type answer struct {
	body        []byte
	contentType string
	etag        string
	// same: it is what has been said before.
	same bool
}

// ask asks a server in this server's own name. etag, where not empty, is what
// is known already.
func (s *server) ask(ctx context.Context, path, accept, etag string) (*answer, error) {
	if s.err != nil {
		return nil, s.err
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	at := *s.base
	at.Path = path
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), nil)
	if err != nil {
		return nil, err
	}
	setIdentity(r.Header, identity{name: aggregator, groups: []string{"system:masters"}})
	r.Header.Set("Accept", accept)
	if etag != "" {
		r.Header.Set("If-None-Match", etag)
	}
	response, err := s.plain.RoundTrip(r) // and not a client: redirects are no answer
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode == http.StatusNotModified && etag != "" {
		return &answer{same: true, etag: etag}, nil
	}
	if response.StatusCode != http.StatusOK {
		_, _ = io.Copy(io.Discard, io.LimitReader(response.Body, 64<<10)) // the connection is of use again
		return nil, &statusError{at.String(), response.StatusCode}
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer+1))
	if err != nil {
		return nil, fmt.Errorf("read the answer of %s: %w", at.String(), err)
	}
	if len(body) > maxAnswer {
		return nil, fmt.Errorf("read the answer of %s: it is longer than %d bytes", at.String(), maxAnswer)
	}
	return &answer{body: body, contentType: response.Header.Get("Content-Type"), etag: response.Header.Get("Etag")}, nil
}

// refuses tells that a server answered, and has no such thing.
func refuses(err error) bool {
	var status *statusError
	return errors.As(err, &status) && (status.status == http.StatusNotFound || status.status == http.StatusNotAcceptable)
}
