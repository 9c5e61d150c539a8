package filters

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"mainstay.dev/mainstay/internal/request"
)

// ErrStopping is the context cause with which Drain.EndLongRunning cancels long-running requests.
var ErrStopping = errors.New("the server is stopping")

// Drain tracks the active requests of a server and ends them during shutdown. RejectNew rejects new
// requests, EndWatches cancels watches gradually, EndLongRunning cancels all long-running requests,
// and Wait waits for the rest. Use NewDrain. Its methods are safe for concurrent use.
type Drain struct {
	sendRetryAfter atomic.Bool // reject with 429 while the listener is still open
	mu             struct {
		sync.Mutex
		rejecting   bool
		active      int
		idle        chan struct{} // closed when new requests are rejected and no request is active
		stopping    bool          // EndLongRunning was called
		longRunning map[*response]struct{}
	}
}

// NewDrain returns a Drain that admits all requests.
func NewDrain() *Drain {
	d := &Drain{}
	d.mu.idle, d.mu.longRunning = make(chan struct{}), map[*response]struct{}{}
	return d
}

// SendRetryAfter makes the filter reject new requests with 429 and a Retry-After of 5 seconds, and close their
// connections. Active requests continue, and health checks and metrics are still served.
func (d *Drain) SendRetryAfter() { d.sendRetryAfter.Store(true) }

// RejectNew makes the filter reject new requests with 503 and close their connections. It may be
// called more than once.
func (d *Drain) RejectNew() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.mu.rejecting {
		return
	}
	d.mu.rejecting = true
	d.closeIdleLocked()
}

// EndLongRunning cancels the contexts of current and later long-running requests with the cause
// ErrStopping. It does not wait for them.
func (d *Drain) EndLongRunning() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.mu.stopping = true
	for r := range d.mu.longRunning {
		request.Cancel(r.ctx, ErrStopping)
	}
}

// minWatchEndRate is the minimum number of watches that EndWatches ends per second, as in
// kube-apiserver.
const minWatchEndRate = 200

// EndWatches cancels the contexts of the current watches with the cause ErrStopping, evenly
// distributed over period, but at least 200 per second. Clients then reconnect to other servers at
// different times. It returns when all contexts are canceled or ctx ends. It does not wait for the
// requests.
func (d *Drain) EndWatches(ctx context.Context, period time.Duration) {
	watches := d.watches()
	if len(watches) == 0 {
		return
	}
	interval := max(min(period/time.Duration(len(watches)), time.Second/minWatchEndRate), 1)
	began := time.Now()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for ended := 0; ended < len(watches); {
		select {
		case <-timer.C:
		case <-ctx.Done():
			return
		}
		due := min(int(time.Since(began)/interval)+1, len(watches))
		for ; ended < due; ended++ {
			d.end(watches[ended])
		}
		timer.Reset(interval)
	}
}

// watches returns the active watches.
func (d *Drain) watches() []*response {
	d.mu.Lock()
	defer d.mu.Unlock()
	var watches []*response
	for r := range d.mu.longRunning {
		if info := request.InfoFrom(r.ctx); info != nil && info.Verb == "watch" {
			watches = append(watches, r)
		}
	}
	return watches
}

// end cancels the context of a long-running request, unless the request has already ended.
func (d *Drain) end(r *response) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, active := d.mu.longRunning[r]; active {
		request.Cancel(r.ctx, ErrStopping)
	}
}

// Wait blocks until RejectNew has been called and no request is active. It returns the cause of ctx
// if ctx ends first.
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
	if d.mu.rejecting {
		return false
	}
	d.mu.active++
	return true
}

// beginLongRunning registers a long-running request, so that EndLongRunning cancels it.
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
	if d.mu.rejecting && d.mu.active == 0 {
		select {
		case <-d.mu.idle:
		default:
			close(d.mu.idle)
		}
	}
}

// Filter returns the filter that tracks and rejects requests for d. It writes rejections with
// onError. The filter of a nil Drain does nothing.
func (d *Drain) Filter(onError ErrorWriter) Filter {
	if d == nil {
		return func(next http.Handler) http.Handler { return next }
	}
	return func(next http.Handler) http.Handler { return &drainHandler{d, onError, next} }
}

type drainHandler struct {
	*Drain
	onError ErrorWriter
	next    http.Handler
}

// ServeHTTP implements http.Handler.
func (d *drainHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
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

// admit counts the request as active, or returns an error and sets the headers of the rejection.
func (d *Drain) admit(header http.Header, r *http.Request) error {
	if d.sendRetryAfter.Load() && !isProbe(request.InfoFrom(r.Context())) {
		header.Set("Connection", "close")
		header.Set("Retry-After", "5")
		return apierrors.NewTooManyRequests("The apiserver is shutting down, please try again later.", 5)
	}
	if !d.begin() {
		header.Set("Connection", "close")
		header.Set("Retry-After", "1")
		return apierrors.NewServiceUnavailable("apiserver is shutting down")
	}
	return nil
}

// isProbe reports whether a request is a health check or reads metrics. SendRetryAfter does not reject such
// requests. As in kube-apiserver, this includes paths such as /readyz/etcd and /metrics/slis.
func isProbe(info *request.Info) bool {
	return slices.ContainsFunc([]string{"/healthz", "/livez", "/readyz", "/metrics"}, func(prefix string) bool {
		return strings.HasPrefix(info.Path, prefix)
	})
}
