package authn

import (
	"crypto/x509"
	"errors"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mainstay.dev/mainstay/internal/request"
)

func TestRequestHeaders(t *testing.T) {
	t.Parallel()
	ca, other := newAuthority(t), newAuthority(t)
	proxy := func(c *x509.Certificate) { c.Subject.CommonName = "front-proxy-client" }
	jane := http.Header{
		"X-Remote-User": {"jane"}, "X-Remote-Uid": {"u-1"}, "X-Remote-Group": {"devs", "", "ops"},
		"X-Remote-Extra-Scopes": {"a", "b"}, "X-Remote-Extra-Example.com%2fid": {"7"}, "Other": {"kept"},
		"X_Remote_User": {"root"}, "x_remote.extra_a": {"b"}, // spellings that a backend may mistake for a front-proxy header
	}
	tests := []struct {
		name    string
		headers http.Header
		certs   []*x509.Certificate
		want    *request.User
		bad     bool
	}{
		{"a proxy", jane, []*x509.Certificate{ca.user(t, proxy)}, &request.User{
			Name: "jane", UID: "u-1", Groups: []string{"devs", "ops", "system:authenticated"},
			Extra: map[string][]string{"scopes": {"a", "b"}, "example.com/id": {"7"}},
		}, false},
		{"a proxy without a user header", http.Header{"X-Remote-Group": {"system:masters"}}, []*x509.Certificate{ca.user(t, proxy)}, nil, false},
		{"a client that is not a proxy", jane, []*x509.Certificate{ca.user(t, nil)}, nil, true},
		{"a proxy of another authority", jane, []*x509.Certificate{other.user(t, proxy)}, nil, true},
		{"without a certificate", jane, nil, nil, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			authenticator := &RequestHeaders{
				Authorities: ca.pool(), AllowedNames: []string{"front-proxy-client"}, UserHeaders: []string{"X-Remote-User"},
				UIDHeaders: []string{"X-Remote-Uid"}, GroupHeaders: []string{"X-Remote-Group"}, ExtraPrefixes: []string{"X-Remote-Extra-"},
			}
			r := with(NewConn(t.Context()), tt.certs...)
			for range 2 { // the second request uses the cached result of the connection
				r.Header = tt.headers.Clone()
				got, err := authenticator.Authenticate(r)
				if errors.Is(err, ErrUnauthorized) != tt.bad {
					t.Fatalf("error %v, want ErrUnauthorized: %t", err, tt.bad)
				}
				if got != nil && got.Credential != request.CredentialFrontProxy {
					t.Errorf("credential %s, want a front proxy", got.Credential)
				}
				if diff := cmp.Diff(tt.want, userOrNil(got)); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
				for name := range r.Header {
					if name != "Other" {
						t.Errorf("%s was not removed", name)
					}
				}
			}
		})
	}
}

// TestRemoveDefaultHeaders checks that kube-apiserver's default headers are not forwarded, even if no front
// proxy is configured.
func TestRemoveDefaultHeaders(t *testing.T) {
	t.Parallel()
	header := http.Header{
		"X-Remote-User": {"b"}, "X-Remote-Uid": {"c"}, "X-Remote-Group": {"d"}, "X-Remote-Extra-Scopes": {"e"}, "X_remote_user": {"f"},
		"X-Remote-Address": {"kept"},
	}
	RemoveCredentials(header)
	if diff := cmp.Diff(http.Header{"X-Remote-Address": {"kept"}}, header); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestHeaderNames(t *testing.T) {
	t.Parallel()
	got, err := HeaderNames([]string{" x-remote-user", "X-USER"})
	if diff := cmp.Diff([]string{"X-Remote-User", "X-User"}, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if _, err := HeaderNames([]string{"a", " "}); err == nil {
		t.Error("an empty name is accepted")
	}
}

// FuzzExtraKey checks that no header name causes a panic.
func FuzzExtraKey(f *testing.F) {
	f.Add("Example.com%2fid")
	f.Add("%")
	f.Fuzz(func(_ *testing.T, name string) { ExtraKey(name) })
}
