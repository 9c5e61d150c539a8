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

// Headers by which a request impersonates another user.
const (
	impersonateUser  = "Impersonate-User"
	impersonateUID   = "Impersonate-Uid"
	impersonateGroup = "Impersonate-Group"
	// impersonateExtra is followed by a key of extra.
	impersonateExtra = "Impersonate-Extra-"
)

// ImpersonateConfig configures Impersonate.
type ImpersonateConfig struct {
	// Authorizer authorizes impersonation.
	Authorizer authorizer.Authorizer
	// Constrained also enables the verbs of KEP-5284, which limit the requests that a user may send
	// as the other user.
	Constrained bool
	Logger      *slog.Logger
	OnError     ErrorWriter
}

// Impersonate changes the user of requests with Impersonate headers, if the authenticated user may
// impersonate that user. It removes the headers, so that later handlers cannot interpret them
// again.
func Impersonate(config ImpersonateConfig) Filter {
	modes := newImpersonationModes(config.Authorizer, config.Constrained)
	impersonated := func(w http.ResponseWriter, r *http.Request) bool {
		ctx := r.Context()
		wanted, err := takeImpersonated(r.Header)
		if err != nil {
			config.OnError(w, r, err)
			return false
		}
		if wanted == nil {
			return true
		}
		attributes := authorizer.AttributesOf(request.UserFrom(ctx), request.InfoFrom(ctx))
		impersonation, err := modes.impersonate(ctx, wanted, &attributes)
		if err != nil {
			config.Logger.LogAttrs(ctx, telemetry.Verbosity(4), "forbidden", slog.String("URI", r.RequestURI), slog.Any("err", err))
			config.OnError(w, r, err)
			return false
		}
		request.SetImpersonation(ctx, impersonation)
		return true
	}
	return passing(impersonated)
}

// takeImpersonated removes the impersonated user from a header and returns it. It returns nil if
// the header has no impersonated user.
func takeImpersonated(header http.Header) (*request.User, error) {
	wanted := &request.User{Name: header.Get(impersonateUser), UID: header.Get(impersonateUID), Groups: header[impersonateGroup]}
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
		if wanted.Extra == nil {
			wanted.Extra = make(map[string][]string)
		}
		key = authn.ExtraKey(key)
		wanted.Extra[key] = append(wanted.Extra[key], values...)
	}
	if wanted.Name == "" {
		if wanted.UID == "" && len(wanted.Groups) == 0 && !extra {
			return nil, nil
		}
		return nil, withoutUser(wanted)
	}
	for name := range header {
		if name == impersonateUser || name == impersonateUID || name == impersonateGroup || strings.HasPrefix(name, impersonateExtra) {
			delete(header, name)
		}
	}
	return wanted, nil
}

// withoutUser is the answer to parts of a user without a name, in kube-apiserver's
// words, which print a Go value.
func withoutUser(wanted *request.User) error {
	return apierrors.NewBadRequest(fmt.Sprintf("requested &user.DefaultInfo{Name:%q, UID:%q, Groups:%#v, Extra:%#v} without impersonating a user name",
		wanted.Name, wanted.UID, wanted.Groups, wanted.Extra))
}
