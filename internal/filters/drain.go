package filters

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"mainstay.dev/mainstay/internal/request"
)

// ErrStopping is the cause of the end of long-running requests when the server
// stops.
var ErrStopping = errors.New("the server is stopping")

// Drain ends the requests of a server. Refuse rejects new requests, EndLongRunning ends
// long-running ones, and Wait waits for all. Its methods are safe for concurrent use.
type Drain struct {
	retry atomic.Bool // refuse with 429 while the listener is open still
	mu    struct {
		sync.Mutex
		refusing    bool
		active      int
		idle        chan struct{} // closed when new requests are rejected and no request is active
		stopping    bool          // long-running requests are ended
		longRunning map[*response]struct{}
	}
}

// NewDrain returns a Drain that passes all requests.
func NewDrain() *Drain {
	d := &Drain{}
	d.mu.idle, d.mu.longRunning = make(chan struct{}), map[*response]struct{}{}
	return d
}

// SendRetryAfter responds to new requests with 429 and a Retry-After of a few seconds, and closes
// their connections, while requests in flight continue.
func (d *Drain) SendRetryAfter() { d.retry.Store(true) }

// Refuse responds to new requests with 503, and closes their connections.
func (d *Drain) Refuse() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.mu.refusing {
		return
	}
	d.mu.refusing = true
	d.closeIdleLocked()
}

// EndLongRunning cancels the contexts of long-running requests with ErrStopping.
func (d *Drain) EndLongRunning() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.mu.stopping = true
	for r := range d.mu.longRunning {
		request.Cancel(r.ctx, ErrStopping)
	}
}

// Wait returns when no request is under way after Refuse, or when ctx ends.
func (d *Drain) Wait(ctx context.Context) error {
	select {
	case <-d.mu.idle:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (d *Drain) begin() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.mu.refusing {
		return false
	}
	d.mu.active++
	return true
}

// beginLongRunning has the request of a response end when the server stops.
func (d *Drain) beginLongRunning(r *response) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.mu.longRunning[r] = struct{}{}
	if d.mu.stopping {
		request.Cancel(r.ctx, ErrStopping)
	}
}

// cleanup implements cleaner.
func (d *Drain) cleanup(r *response, _ any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.mu.longRunning, r)
	d.mu.active--
	d.closeIdleLocked()
}

func (d *Drain) closeIdleLocked() {
	if d.mu.refusing && d.mu.active == 0 {
		select {
		case <-d.mu.idle:
		default:
			close(d.mu.idle)
		}
	}
}

// Filter returns the filter that acts for d.
func (d *Drain) Filter(onError ErrorWriter) Filter {
	return func(next http.Handler) http.Handler { return &draining{d, onError, next} }
}

type draining struct {
	*Drain
	onError ErrorWriter
	next    http.Handler
}

// ServeHTTP implements http.Handler.
func (d *draining) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if err := d.admit(w.Header(), r); err != nil {
		d.onError(w, r, err)
		return
	}
	response := wrap(w)
	response.addCleanup(d.Drain)
	if request.LongRunning(r.Context()) {
		d.beginLongRunning(response)
	}
	d.next.ServeHTTP(response, r)
}

// admit begins a request, or returns why not.
func (d *Drain) admit(answer http.Header, r *http.Request) error {
	if d.retry.Load() && !probe(request.InfoFrom(r.Context())) {
		answer.Set("Connection", "close")
		answer.Set("Retry-After", "5")
		return apierrors.NewTooManyRequests("The apiserver is shutting down, please try again later.", 5)
	}
	if !d.begin() {
		answer.Set("Connection", "close")
		answer.Set("Retry-After", "1")
		return apierrors.NewServiceUnavailable("apiserver is shutting down")
	}
	return nil
}

// probe reports whether a request is a health check or the like, which are served
// to the end.
func probe(info *request.Info) bool {
	switch info.Path {
	case "/healthz", "/livez", "/readyz", "/metrics":
		return true
	}
	return false
}
