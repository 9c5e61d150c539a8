package filters

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"mainstay.dev/mainstay/internal/filters/authn"
	"mainstay.dev/mainstay/internal/request"
)

type authenticatorFunc func(*http.Request) (*request.Authentication, error)

func (f authenticatorFunc) Authenticate(r *http.Request) (*request.Authentication, error) {
	return f(r)
}

func TestAuthenticate(t *testing.T) {
	t.Parallel()
	jane := func(*http.Request) (*request.Authentication, error) {
		return &request.Authentication{User: &request.User{Name: "jane"}, Credential: request.CredentialToken}, nil
	}
	nobody := func(*http.Request) (*request.Authentication, error) { return nil, nil }
	bad := func(*http.Request) (*request.Authentication, error) { return nil, errors.New("bad token") }
	tests := []struct {
		name          string
		authenticator authenticatorFunc
		anonymous     bool
		user          string // "" for 401
		credential    request.Credential
		closes        bool // the HTTP/2 connection is closed
	}{
		{"a user", jane, true, "jane", request.CredentialToken, false},
		{"no credentials", nobody, true, request.Anonymous, request.CredentialNone, true},
		{"no credentials, anonymous requests not allowed", nobody, false, "", "", true},
		{"bad credentials", bad, true, "", "", true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			final := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("Authorization") != "" {
					t.Error("the handler sees the credentials")
				}
				if got := request.AuthenticationFrom(r.Context()).Credential; got != tt.credential {
					t.Errorf("credential %s, want %s", got, tt.credential)
				}
				io.WriteString(w, request.UserFrom(r.Context()).Name)
			})
			r := httptest.NewRequest("GET", "/version", nil)
			r.Header.Set("Authorization", "Bearer secret")
			config := AuthenticateConfig{
				Authenticator: tt.authenticator, Anonymous: func(string) bool { return tt.anonymous }, CloseHTTP2: true, Logger: quiet(), OnError: writeError,
			}
			second := r.Clone(r.Context())
			second.Proto, second.ProtoMajor, second.ProtoMinor = "HTTP/2.0", 2, 0
			if got := get(t, final, second, Authenticate(config)); (got.Header().Get("Connection") == "close") != tt.closes {
				t.Errorf("HTTP/2 response with Connection: %q", got.Header().Get("Connection"))
			}
			got := get(t, final, r, Authenticate(config))
			if got.Header().Get("Connection") != "" {
				t.Errorf("HTTP/1.1 response with Connection: %q", got.Header().Get("Connection"))
			}
			if tt.user != "" {
				if got.Code != 200 || got.Body.String() != tt.user {
					t.Errorf("response %d %s, want %s", got.Code, got.Body, tt.user)
				}
				return
			}
			want := &metav1.Status{Status: "Failure", Message: "Unauthorized", Reason: "Unauthorized", Code: 401}
			if diff := cmp.Diff(want, statusOf(t, got.Body)); got.Code != 401 || diff != "" {
				t.Errorf("response %d (-want +got):\n%s", got.Code, diff)
			}
		})
	}
}

// TestRejection checks that only a RejectionError determines the response. The errors of authenticators can
// contain other statuses, such as the absence of a service account, which clients must not see.
func TestRejection(t *testing.T) {
	t.Parallel()
	status := apierrors.NewForbidden(schema.GroupResource{Resource: "controlplanes"}, "a", errors.New("no"))
	for _, tt := range []struct {
		err  error
		code int
	}{
		{&authn.RejectionError{Status: status}, 403},
		{errors.Join(errors.New("bad token"), fmt.Errorf("visitor: %w", &authn.RejectionError{Status: status})), 403},
		{status, 401},
		{fmt.Errorf("bearer token: %w", apierrors.NewNotFound(schema.GroupResource{Resource: "serviceaccounts"}, "a")), 401},
	} {
		reject := authenticatorFunc(func(*http.Request) (*request.Authentication, error) { return nil, tt.err })
		config := AuthenticateConfig{Authenticator: reject, Anonymous: func(string) bool { return true }, Logger: quiet(), OnError: writeError}
		got := get(t, http.NotFoundHandler(), httptest.NewRequest("GET", "/version", nil), Authenticate(config))
		if got.Code != tt.code {
			t.Errorf("%v: %d, want %d", tt.err, got.Code, tt.code)
		}
	}
}
