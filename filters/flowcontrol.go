package filters

import (
	"net/http"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"mainstay.dev/mainstay/flowcontrol"
	"mainstay.dev/mainstay/request"
	"mainstay.dev/mainstay/telemetry"
)

// FlowControl has each request wait for its turn, and refuses those with 429 that do
// not get one. A watch has its turn until it has sent its first events. Other
// long-running requests need none.
func FlowControl(by *flowcontrol.Control, metrics *telemetry.Requests, onError ErrorWriter) Filter {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			ctx := r.Context()
			info := request.InfoFrom(ctx)
			watch := info.IsResource && info.Verb == "watch"
			if request.LongRunning(ctx) && !watch {
				next.ServeHTTP(w, r)
				return
			}
			turn := by.Take(r)
			if turn.Waits() {
				waitFor(turn, r, queuedMark(metrics, info))
			}
			turn.SetHeaders(w.Header())
			switch {
			case !turn.Admitted():
				metrics.Terminated(telemetry.Describe(r, info, false), http.StatusTooManyRequests)
				tooManyRequests(w, r, turn.Refuse(), onError)
			case watch:
				serveWatch(by, turn, next, w, r)
			default:
				defer turn.End() // also when the handler panics
				next.ServeHTTP(w, r)
			}
		})
	}
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

// serveWatch ends the turn of a watch when it is initialized, or at its end. Nothing
// of the turn is kept for as long as the watch lasts.
func serveWatch(by *flowcontrol.Control, turn *flowcontrol.Turn, next http.Handler, w http.ResponseWriter, r *http.Request) {
	ctx := r.Context()
	info := request.InfoFrom(ctx)
	by.Watch(info)
	defer by.Forget(info)
	request.OnWatchInitialized(ctx, turn.End)
	defer request.WatchInitialized(ctx)
	next.ServeHTTP(w, r)
}

// tooManyRequests refuses a request that may be sent again after some seconds.
func tooManyRequests(w http.ResponseWriter, r *http.Request, seconds int64, onError ErrorWriter) {
	w.Header().Set("Retry-After", strconv.FormatInt(seconds, 10))
	onError(w, r, apierrors.NewTooManyRequests("Too many requests, please try again later.", int(seconds)))
}
