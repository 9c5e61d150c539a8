package filters

import (
	"net/http"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"mainstay.dev/mainstay/internal/filters/flowcontrol"
	"mainstay.dev/mainstay/internal/request"
	"mainstay.dev/mainstay/internal/telemetry"
)

// FlowControl queues each request until it gets a turn, and rejects requests that get no turn with
// 429. A watch occupies its turn until it has sent the initial events. Other long-running requests
// are not limited.
func FlowControl(by *flowcontrol.Control, metrics *telemetry.Requests, onError ErrorWriter) Filter {
	return func(next http.Handler) http.Handler { return &flowControl{by, metrics, onError, next} }
}

type flowControl struct {
	by      *flowcontrol.Control
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
	turn := f.take(w, r)
	if turn == nil {
		return
	}
	defer turn.End() // also if the handler panics
	f.next.ServeHTTP(w, r)
}

// serveWatch ends the turn of a watch when the watch is initialized, or at its end at the latest.
// The turn is not retained while the watch is active.
func (f *flowControl) serveWatch(w *response, r *http.Request) {
	turn := f.take(w, r)
	if turn == nil {
		return
	}
	f.by.Watch(request.InfoFrom(r.Context()))
	request.OnWatchInitialized(r.Context(), turn.End)
	w.addCleanup(f)
	f.next.ServeHTTP(w, r)
}

// cleanup implements cleaner, for a watch.
func (f *flowControl) cleanup(w *response, _ any) {
	request.WatchInitialized(w.ctx) // at the latest
	f.by.Forget(request.InfoFrom(w.ctx))
}

// take waits for the turn of a request and returns it. It returns nil if the request was rejected.
func (f *flowControl) take(w http.ResponseWriter, r *http.Request) *flowcontrol.Turn {
	turn := f.by.Take(r)
	if turn.Waits() {
		waitFor(turn, r, queuedMark(f.metrics, request.InfoFrom(r.Context())))
	}
	turn.SetHeaders(w.Header())
	if turn.Admitted() {
		return turn
	}
	countTerminated(f.metrics, r)
	tooManyRequests(w, r, turn.Refuse(), f.onError)
	return nil
}

func queuedMark(metrics *telemetry.Requests, info *request.Info) *telemetry.Watermark {
	if mutating(info) {
		return metrics.QueuedMutating()
	}
	return metrics.QueuedReadOnly()
}

func waitFor(turn *flowcontrol.Turn, r *http.Request, mark *telemetry.Watermark) {
	mark.Begin()
	defer mark.End()
	turn.Wait(r.Context())
	request.SetQueueWait(r.Context(), turn.Waited())
}

// tooManyRequests rejects a request with a Retry-After in seconds.
func tooManyRequests(w http.ResponseWriter, r *http.Request, seconds int64, onError ErrorWriter) {
	w.Header().Set("Retry-After", strconv.FormatInt(seconds, 10))
	onError(w, r, apierrors.NewTooManyRequests("Too many requests, please try again later.", int(seconds)))
}
