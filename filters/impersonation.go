package filters

import (
	"errors"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// impersonatePrefix is the prefix of the headers by which a request impersonates
// another user: Impersonate-User, -Group, -Uid and -Extra-KEY.
const impersonatePrefix = "Impersonate-"

// RefuseImpersonation answers every request with an Impersonate header with 403,
// whatever the header's value. Without impersonation such a request would be
// authorized as its caller, which usually has more rights than the user it
// impersonates.
func RefuseImpersonation(onError ErrorWriter) Filter {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if impersonates(r.Header) {
				onError(w, r, apierrors.NewForbidden(schema.GroupResource{}, "", errors.New("impersonation is not supported yet")))
				return
			}
			next.ServeHTTP(w, r)
		})
	}
}

func impersonates(header http.Header) bool {
	for key := range header {
		if len(key) >= len(impersonatePrefix) && strings.EqualFold(key[:len(impersonatePrefix)], impersonatePrefix) {
			return true
		}
	}
	return false
}
