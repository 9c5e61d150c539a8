package controlplane

import (
	"net/http"
	"testing"
)

// TestReadOnlyPaths checks that document paths allow only GET and HEAD.
func TestReadOnlyPaths(t *testing.T) {
	t.Parallel()
	c := newRBACPlane(t)
	for _, path := range []string{"/version", "/api", "/api/v1", "/apis", "/apis/apps", "/apis/apps/v1", "/openid/v1/jwks"} {
		for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
			as(t, c, "admin", method, path, "", http.StatusMethodNotAllowed, `"reason":"MethodNotAllowed"`)
		}
		as(t, c, "admin", http.MethodGet, path, "", http.StatusOK, "")
	}
}
