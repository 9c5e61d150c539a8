package filters

import (
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"mainstay.dev/mainstay/internal/filters/authn"
	"mainstay.dev/mainstay/internal/request"
	"mainstay.dev/mainstay/internal/telemetry"
)

// AuthenticateConfig configures Authenticate. Metrics may be nil; the other fields are required.
type AuthenticateConfig struct {
	Authenticator authn.Authenticator
	// Anonymous reports whether requests for a path are accepted without credentials, as user
	// system:anonymous. It is called concurrently.
	Anonymous func(path string) bool
	// CloseHTTP2 closes an HTTP/2 connection after an anonymous request or a failed authentication.
	// This makes it expensive for unauthenticated clients to open and reset many streams (feature
	// gate UnauthenticatedHTTP2DOSMitigation).
	CloseHTTP2 bool
	Metrics    *authn.RequestMetrics
	Logger     *slog.Logger
	OnError    ErrorWriter
}

// Authenticate returns a filter that adds the user and the authentication method to the request's context and
// removes the credentials from the header. Invalid credentials result in 401, or in the status of an
// authn.RejectionError, even if anonymous requests are allowed.
func Authenticate(config AuthenticateConfig) Filter {
	anonymous := authn.Anonymous()
	authenticated := func(w http.ResponseWriter, r *http.Request) bool {
		began := time.Now()
		found, err := config.Authenticator.Authenticate(r)
		if found == nil && err == nil && config.Anonymous(r.URL.Path) {
			found = anonymous
		}
		took := time.Since(began)
		request.AddLatency(r.Context(), request.StageAuthentication, took)
		config.Metrics.Observe(found, err, took)
		if found == nil {
			if err != nil {
				config.Logger.LogAttrs(r.Context(), telemetry.Verbosity(2), "unable to authenticate the request",
					slog.Any("err", err), slog.String("audit-ID", request.AuditID(r.Context())))
			}
			if config.CloseHTTP2 && r.ProtoMajor == 2 {
				w.Header().Set("Connection", "close")
			}
			config.OnError(w, r, rejection(err))
			return false
		}
		// Later handlers, such as the proxy to an aggregated server, must not
		// see the client's credentials.
		authn.RemoveCredentials(r.Header)
		if config.CloseHTTP2 && r.ProtoMajor == 2 && isAnonymous(found.User) {
			w.Header().Set("Connection", "close")
		}
		request.SetAuthentication(r.Context(), found)
		return true
	}
	return filterFunc(authenticated)
}

// rejection returns the response for a request without a user, which is the status of an authn.RejectionError
// or else a 401.
func rejection(err error) error {
	var rejected *authn.RejectionError
	if errors.As(err, &rejected) {
		return rejected.Status
	}
	return apierrors.NewUnauthorized("Unauthorized")
}

// isAnonymous reports whether a user is unauthenticated, by name or by group.
func isAnonymous(user *request.User) bool {
	return user.Name == request.Anonymous || slices.Contains(user.Groups, request.GroupUnauthenticated)
}
