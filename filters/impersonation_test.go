package filters

import (
	"net/http"
	"net/http/httptest"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// TestRefuseImpersonation: no request that asks to be made as another user is
// made as its caller.
func TestRefuseImpersonation(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		header  http.Header
		refused bool
	}{
		{"nothing asked", http.Header{"Accept": {"application/json"}, "X-Remote-User": {"jane"}}, false},
		{"a name that only begins alike", http.Header{"Impersonated": {"jane"}}, false},
		{"user", http.Header{"Impersonate-User": {"jane"}}, true},
		{"empty user", http.Header{"Impersonate-User": {""}}, true},
		{"no value at all", http.Header{"Impersonate-User": nil}, true},
		{"group alone", http.Header{"Impersonate-Group": {"system:masters"}}, true},
		{"UID alone", http.Header{"Impersonate-Uid": {"7"}}, true},
		{"extra alone", http.Header{"Impersonate-Extra-Scopes": {"view"}}, true},
		{"extra with an escaped key", http.Header{"Impersonate-Extra-Example.com%2fscopes": {"view"}}, true},
		{"lower case", http.Header{"impersonate-user": {"jane"}}, true},
		{"upper case", http.Header{"IMPERSONATE-EXTRA-A": {""}}, true},
		{"a header to come", http.Header{"Impersonate-Other": {"x"}}, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var refusal error
			passed := false
			handler := RefuseImpersonation(func(_ http.ResponseWriter, _ *http.Request, err error) { refusal = err })(
				http.HandlerFunc(func(http.ResponseWriter, *http.Request) { passed = true }))
			r := httptest.NewRequest("GET", "/api/v1/pods", nil)
			r.Header = tt.header
			handler.ServeHTTP(httptest.NewRecorder(), r)
			if passed == tt.refused || apierrors.IsForbidden(refusal) != tt.refused {
				t.Errorf("passed is %t, the refusal %v; want refused: %t", passed, refusal, tt.refused)
			}
		})
	}
}
