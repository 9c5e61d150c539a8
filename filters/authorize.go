package filters

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"mainstay.dev/mainstay/filters/authz"
	"mainstay.dev/mainstay/request"
	"mainstay.dev/mainstay/telemetry"
)

// Authorize lets pass what the authorizer allows and answers all else with 403.
func Authorize(authorizer authz.Authorizer, logger *slog.Logger, onError ErrorWriter) Filter {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			ctx := r.Context()
			attributes := authz.AttributesOf(request.UserFrom(ctx), request.InfoFrom(ctx))
			decision, reason, err := authorizer.Authorize(ctx, &attributes)
			if decision == authz.Allow {
				next.ServeHTTP(w, r)
				return
			}
			if err != nil {
				logger.LogAttrs(ctx, slog.LevelError, "authorize the request", slog.Any("err", err), slog.String("audit-ID", request.AuditID(ctx)))
				if decision != authz.Deny {
					onError(w, r, apierrors.NewInternalError(err))
					return
				}
			}
			logger.LogAttrs(ctx, telemetry.Verbosity(4), "forbidden", slog.String("URI", r.RequestURI), slog.String("reason", reason))
			w.Header().Set("X-Content-Type-Options", "nosniff")
			onError(w, r, Forbidden(&attributes, reason))
		})
	}
}

// Forbidden is the answer to a request that its user may not make, in the words
// that clients of kube-apiserver know.
func Forbidden(a *authz.Attributes, reason string) error {
	message := escapeHTML(denial(a))
	if reason != "" {
		message += ": " + reason
	}
	return apierrors.NewForbidden(schema.GroupResource{Group: a.Group, Resource: a.Resource}, a.Name, errors.New(message))
}

func denial(a *authz.Attributes) string {
	name := ""
	if a.User != nil {
		name = a.User.Name
	}
	if !a.IsResource {
		return fmt.Sprintf("User %q cannot %s path %q", name, a.Verb, a.Path)
	}
	resource := a.Resource
	if a.Subresource != "" {
		resource += "/" + a.Subresource
	}
	where := "at the cluster scope"
	if a.Namespace != "" {
		where = fmt.Sprintf("in the namespace %q", a.Namespace)
	}
	return fmt.Sprintf("User %q cannot %s resource %q in API group %q %s", name, a.Verb, resource, a.Group, where)
}

// escapeHTML keeps a browser that takes the answer for a page from running what
// a client wrote into the path.
func escapeHTML(s string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(s)
}
