package filters

import (
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"mainstay.dev/mainstay/request"
)

// RequestInfo parses the request line, once, and puts the request.Info into the
// request's context, with whether the request is long-running.
func RequestInfo(longRunning func(*request.Info) bool, onError ErrorWriter) Filter {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			r, err := withInfo(w, r, longRunning)
			if err != nil {
				onError(w, r, apierrors.NewBadRequest(err.Error()))
				return
			}
			response := wrap(w)
			response.ctx = r.Context()
			next.ServeHTTP(response, r)
		})
	}
}

// withInfo returns the request with its request.Info, also with an error of the request
// line.
func withInfo(w http.ResponseWriter, r *http.Request, longRunning func(*request.Info) bool) (*http.Request, error) {
	info, err := request.Parse(r)
	ctx := request.NewContext(r.Context(), &info, time.Now())
	request.SetAuditID(ctx, auditIDOf(w))
	request.SetOriginal(ctx, r)
	if err == nil {
		request.SetLongRunning(ctx, longRunning(&info))
	}
	return r.WithContext(ctx), err
}
