package filters

import (
	"fmt"
	"log/slog"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"mainstay.dev/mainstay/internal/authorizer"
	"mainstay.dev/mainstay/internal/filters/authn"
	"mainstay.dev/mainstay/internal/request"
	"mainstay.dev/mainstay/internal/telemetry"
)

// Headers with the attributes of the impersonated user.
const (
	impersonateUser  = "Impersonate-User"
	impersonateUID   = "Impersonate-Uid"
	impersonateGroup = "Impersonate-Group"
	// impersonateExtra is a prefix. The rest of the header name is a key of the user's extra
	// attributes.
	impersonateExtra = "Impersonate-Extra-"
)

// ImpersonateConfig configures Impersonate. All fields are required.
type ImpersonateConfig struct {
	// Authorizer authorizes impersonation.
	Authorizer authorizer.Authorizer
	// Constrained also enables the verbs of KEP-5284, which limit the requests that a user may send
	// as the other user.
	Constrained bool
	Logger      *slog.Logger
	OnError     ErrorWriter
}

// Impersonate returns a filter that handles Impersonate headers. If the authenticated user may
// impersonate the user in the headers, the filter makes that user the user of the request.
// Otherwise, it responds with 403, or with 400 if the user name is missing. It removes the headers,
// so that later handlers cannot interpret them again.
func Impersonate(config ImpersonateConfig) Filter {
	modes := newImpersonationModes(config.Authorizer, config.Constrained)
	impersonated := func(w http.ResponseWriter, r *http.Request) bool {
		ctx := r.Context()
		target, err := extractImpersonated(r.Header)
		if err != nil {
			config.OnError(w, r, err)
			return false
		}
		if target == nil {
			return true
		}
		attributes := authorizer.AttributesOf(request.UserFrom(ctx), request.InfoFrom(ctx))
		impersonation, err := modes.impersonate(ctx, target, &attributes)
		if err != nil {
			config.Logger.LogAttrs(ctx, telemetry.Verbosity(4), "forbidden", slog.String("URI", r.RequestURI), slog.Any("err", err))
			config.OnError(w, r, err)
			return false
		}
		request.SetImpersonation(ctx, impersonation)
		return true
	}
	return filterFunc(impersonated)
}

// extractImpersonated removes the Impersonate headers and returns the user that they describe. It
// returns nil if there are no such headers, and an API error if the user name is missing.
func extractImpersonated(header http.Header) (*request.User, error) {
	target := &request.User{Name: header.Get(impersonateUser), UID: header.Get(impersonateUID), Groups: header[impersonateGroup]}
	extra := false
	for name, values := range header {
		key, ok := strings.CutPrefix(name, impersonateExtra)
		if !ok {
			continue
		}
		extra = true
		if len(values) == 0 {
			continue
		}
		if target.Extra == nil {
			target.Extra = make(map[string][]string)
		}
		key = authn.ExtraKey(key)
		target.Extra[key] = append(target.Extra[key], values...)
	}
	if target.Name == "" {
		if target.UID == "" && len(target.Groups) == 0 && !extra {
			return nil, nil
		}
		return nil, missingUserError(target)
	}
	for name := range header {
		if name == impersonateUser || name == impersonateUID || name == impersonateGroup || strings.HasPrefix(name, impersonateExtra) {
			delete(header, name)
		}
	}
	return target, nil
}

// missingUserError returns the error for Impersonate headers without a user name. kube-apiserver's
// message contains a formatted Go value.
func missingUserError(target *request.User) error {
	return apierrors.NewBadRequest(fmt.Sprintf("requested &user.DefaultInfo{Name:%q, UID:%q, Groups:%#v, Extra:%#v} without impersonating a user name",
		target.Name, target.UID, target.Groups, target.Extra))
}
