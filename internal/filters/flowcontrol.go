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

// FlowControl returns a filter that queues each request until API priority and fairness admits it. Requests
// that are not admitted are rejected with 429 and a Retry-After. A watch occupies its seats until it has sent
// the initial events. Other long-running requests are not limited.
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
	queued := f.admit(w, r)
	if queued == nil {
		return
	}
	defer queued.End() // even if the handler panics
	f.next.ServeHTTP(w, r)
}

// serveWatch serves a watch. The seats of the watch are released when its initial events have been
// sent, or at the end of the request.
func (f *flowControl) serveWatch(w *response, r *http.Request) {
	queued := f.admit(w, r)
	if queued == nil {
		return
	}
	f.control.AddWatch(request.InfoFrom(r.Context()))
	request.OnWatchInitialized(r.Context(), queued.End)
	w.addCleanup(f)
	f.next.ServeHTTP(w, r)
}

// cleanup implements cleaner, for a watch.
func (f *flowControl) cleanup(w *response, _ any) {
	request.WatchInitialized(w.ctx) // no effect if the watch was already initialized
	f.control.RemoveWatch(request.InfoFrom(w.ctx))
}

// admit waits until the request is admitted or rejected. It returns the flow control state of an admitted
// request. For a rejected request, it writes the response and returns nil.
func (f *flowControl) admit(w http.ResponseWriter, r *http.Request) *flowcontrol.Request {
	queued := f.control.NewRequest(r)
	if queued.MustWait() {
		measureWait(queued, r, queueWatermark(f.metrics, request.InfoFrom(r.Context())))
	}
	queued.SetHeaders(w.Header())
	if queued.Admitted() {
		return queued
	}
	countTerminated(f.metrics, r)
	tooManyRequests(w, r, queued.RetryAfter(), f.onError)
	return nil
}

func queueWatermark(metrics *telemetry.Requests, info *request.Info) *telemetry.Watermark {
	if mutating(info) {
		return metrics.QueuedMutating()
	}
	return metrics.QueuedReadOnly()
}

func measureWait(queued *flowcontrol.Request, r *http.Request, mark *telemetry.Watermark) {
	mark.Inc()
	defer mark.Dec()
	_, span := tracing.Start(r.Context(), "Wait in queue")
	defer span.End(nil)
	queued.Wait(r.Context())
	request.AddLatency(r.Context(), request.StageQueueWait, queued.Waited())
}

// tooManyRequests rejects a request with 429 and a Retry-After in seconds.
func tooManyRequests(w http.ResponseWriter, r *http.Request, seconds int64, onError ErrorWriter) {
	w.Header().Set("Retry-After", strconv.FormatInt(seconds, 10))
	onError(w, r, apierrors.NewTooManyRequests("Too many requests, please try again later.", int(seconds)))
}
