package filters

import (
	"net/http"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"mainstay.dev/mainstay/internal/filters/flowcontrol"
	"mainstay.dev/mainstay/internal/request"
	"mainstay.dev/mainstay/internal/telemetry"
	"mainstay.dev/mainstay/internal/telemetry/tracing"
)

// FlowControl returns a filter that queues each request until API priority and fairness admits it.
// Requests that are not admitted get 429 with a Retry-After. A watch occupies its seats until it
// has sent the initial events. Other long-running requests are not limited.
func FlowControl(by *flowcontrol.Control, metrics *telemetry.Requests, onError ErrorWriter) Filter {
	return func(next http.Handler) http.Handler { return &flowControl{by, metrics, onError, next} }
}

type flowControl struct {
	control *flowcontrol.Control
	metrics *telemetry.Requests
	onError ErrorWriter
	next    http.Handler
}

// ServeHTTP implements http.Handler.
func (f *flowControl) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case !request.LongRunning(r.Context()):
		f.serve(w, r)
	case !isWatch(request.InfoFrom(r.Context())):
		f.next.ServeHTTP(w, r)
	default:
		f.serveWatch(wrap(w), r)
	}
}

func isWatch(info *request.Info) bool { return info.IsResource && info.Verb == "watch" }

func (f *flowControl) serve(w http.ResponseWriter, r *http.Request) {
	turn := f.waitForTurn(w, r)
	if turn == nil {
		return
	}
	defer turn.End() // also if the handler panics
	f.next.ServeHTTP(w, r)
}

// serveWatch ends the turn of a watch when its initial events have been sent, or at the end of the
// request. An active watch does not retain its turn.
func (f *flowControl) serveWatch(w *response, r *http.Request) {
	turn := f.waitForTurn(w, r)
	if turn == nil {
		return
	}
	f.control.AddWatch(request.InfoFrom(r.Context()))
	request.OnWatchInitialized(r.Context(), turn.End)
	w.addCleanup(f)
	f.next.ServeHTTP(w, r)
}

// cleanup implements cleaner, for a watch.
func (f *flowControl) cleanup(w *response, _ any) {
	request.WatchInitialized(w.ctx) // no effect if the watch was already initialized
	f.control.RemoveWatch(request.InfoFrom(w.ctx))
}

// waitForTurn waits until the request is admitted and returns its turn. It returns nil if it has
// rejected the request.
func (f *flowControl) waitForTurn(w http.ResponseWriter, r *http.Request) *flowcontrol.Turn {
	turn := f.control.NewTurn(r)
	if turn.MustWait() {
		measureWait(turn, r, queueWatermark(f.metrics, request.InfoFrom(r.Context())))
	}
	turn.SetHeaders(w.Header())
	if turn.Admitted() {
		return turn
	}
	countTerminated(f.metrics, r)
	tooManyRequests(w, r, turn.RetryAfter(), f.onError)
	return nil
}

func queueWatermark(metrics *telemetry.Requests, info *request.Info) *telemetry.Watermark {
	if mutating(info) {
		return metrics.QueuedMutating()
	}
	return metrics.QueuedReadOnly()
}

func measureWait(turn *flowcontrol.Turn, r *http.Request, mark *telemetry.Watermark) {
	mark.Inc()
	defer mark.Dec()
	_, span := tracing.Start(r.Context(), "Wait in queue")
	defer span.End(nil)
	turn.Wait(r.Context())
	request.SetQueueWait(r.Context(), turn.Waited())
}

// tooManyRequests rejects a request with 429 and a Retry-After in seconds.
func tooManyRequests(w http.ResponseWriter, r *http.Request, seconds int64, onError ErrorWriter) {
	w.Header().Set("Retry-After", strconv.FormatInt(seconds, 10))
	onError(w, r, apierrors.NewTooManyRequests("Too many requests, please try again later.", int(seconds)))
}
