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
			info, err := request.Parse(r)
			ctx := request.NewContext(r.Context(), &info, time.Now())
			request.SetAuditID(ctx, auditIDOf(w))
			request.SetOriginal(ctx, r)
			r = r.WithContext(ctx)
			if err != nil {
				onError(w, r, apierrors.NewBadRequest(err.Error()))
				return
			}
			request.SetLongRunning(ctx, longRunning(&info))
			response := wrap(w)
			response.ctx = ctx
			next.ServeHTTP(response, r)
		})
	}
}
