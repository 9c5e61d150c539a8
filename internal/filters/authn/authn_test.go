package authn

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"mainstay.dev/mainstay/internal/request"
)

// authority signs client certificates.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) authority {
	t.Helper()
	return authority{}.sign(t, &x509.Certificate{
		Subject: pkix.Name{CommonName: "test"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
		NotBefore: time.Now(), NotAfter: time.Now().Add(24 * time.Hour),
	})
}

func (a authority) sign(t *testing.T, template *x509.Certificate) authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template.SerialNumber = big.NewInt(1)
	if a.cert == nil {
		a.cert, a.key = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return authority{cert, key}
}

// user signs a default client certificate, modified by change.
func (a authority) user(t *testing.T, change func(*x509.Certificate)) *x509.Certificate {
	t.Helper()
	template := &x509.Certificate{
		Subject:   pkix.Name{CommonName: "jane", Organization: []string{"devs"}},
		NotBefore: time.Now(), NotAfter: time.Now().Add(time.Hour), ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	if change != nil {
		change(template)
	}
	return a.sign(t, template).cert
}

func (a authority) pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return pool
}

func with(ctx context.Context, certs ...*x509.Certificate) *http.Request {
	r := httptest.NewRequestWithContext(ctx, "GET", "/", nil)
	r.TLS = &tls.ConnectionState{PeerCertificates: certs}
	return r
}

func uids(values ...any) func(*x509.Certificate) {
	return func(c *x509.Certificate) {
		for _, value := range values {
			c.Subject.ExtraNames = append(c.Subject.ExtraNames, pkix.AttributeTypeAndValue{Type: uidAttribute, Value: value})
		}
	}
}

func TestCertificates(t *testing.T) {
	t.Parallel()
	ca, other := newAuthority(t), newAuthority(t)
	tests := []struct {
		name   string
		change func(*x509.Certificate)
		by     authority
		want   *request.User
		err    string
	}{
		{"valid", nil, ca, &request.User{Name: "jane", Groups: []string{"devs", "system:authenticated"}}, ""},
		{"with a UID", uids("u-1"), ca, &request.User{Name: "jane", UID: "u-1", Groups: []string{"devs", "system:authenticated"}}, ""},
		{"two UIDs", uids("u-1", "u-2"), ca, nil, "more than one UID"},
		{"an empty UID", uids(""), ca, nil, "UID in the subject is empty"},
		{"signed by another authority", nil, other, nil, "unknown authority"},
		{"expired", func(c *x509.Certificate) {
			c.NotBefore, c.NotAfter = time.Now().Add(-2*time.Hour), time.Now().Add(-time.Hour)
		}, ca, nil, "expired"},
		{"for a server", func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth} }, ca, nil, "incompatible key usage"},
		{"without a name", func(c *x509.Certificate) { c.Subject.CommonName = "" }, ca, nil, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			authenticator := &Certificates{Authorities: ca.pool()}
			got, err := authenticator.Authenticate(with(NewConn(t.Context()), tt.by.user(t, tt.change)))
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) || !errors.Is(err, ErrUnauthorized) {
					t.Errorf("%v, want %q", err, tt.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got != nil {
				if got.Credential != request.CredentialCertificate {
					t.Errorf("credential %s, want a certificate", got.Credential)
				}
				if id := got.User.Extra[request.ExtraCredentialID]; len(id) != 1 || !strings.HasPrefix(id[0], "X509SHA256=") || len(id[0]) != len("X509SHA256=")+64 {
					t.Errorf("the credential ID is %q", id)
				}
				got.User.Extra = nil
			}
			if diff := cmp.Diff(tt.want, userOrNil(got)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func userOrNil(found *request.Authentication) *request.User {
	if found == nil {
		return nil
	}
	return found.User
}

func TestCertificatesThroughIntermediate(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	between := ca.sign(t, &x509.Certificate{
		Subject: pkix.Name{CommonName: "between"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
		NotBefore: time.Now(), NotAfter: time.Now().Add(time.Hour),
	})
	user, err := (&Certificates{Authorities: ca.pool()}).Authenticate(with(t.Context(), between.user(t, nil), between.cert))
	if err != nil || user == nil || user.User.Name != "jane" {
		t.Errorf("user %v, error %v; want jane", user, err)
	}
}

// TestCertificatesOncePerConnection checks that the result is cached for the connection until the
// certificate expires, and is not used for other connections.
func TestCertificatesOncePerConnection(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ca := newAuthority(t)
		cert := ca.user(t, nil)
		authenticator := &Certificates{Authorities: ca.pool()}
		conn := NewConn(t.Context())
		authenticate := func(ctx context.Context) *request.Authentication {
			user, err := authenticator.Authenticate(with(ctx, cert))
			if err != nil {
				t.Fatal(err)
			}
			return user
		}
		first := authenticate(conn)
		if authenticate(conn) != first {
			t.Error("the certificate was verified again")
		}
		if authenticate(NewConn(t.Context())) == first || authenticate(t.Context()) == first {
			t.Error("another connection used the cached result")
		}
		if _, err := (&Certificates{Authorities: newAuthority(t).pool()}).Authenticate(with(conn, cert)); err == nil {
			t.Error("another authenticator used the cached result")
		}
		time.Sleep(2 * time.Hour)
		if user, err := authenticator.Authenticate(with(conn, cert)); err == nil {
			t.Errorf("an expired certificate was accepted: user %v", user)
		}
	})
}

func BenchmarkCertificates(b *testing.B) {
	t := &testing.T{}
	ca := newAuthority(t)
	r := with(NewConn(context.Background()), ca.user(t, nil))
	authenticator := &Certificates{Authorities: ca.pool()}
	b.ReportAllocs()
	for b.Loop() {
		if user, err := authenticator.Authenticate(r); user == nil || err != nil {
			b.Fatal(err)
		}
	}
}

// tokens is a verifier for a fixed set of tokens. It returns an error for the token "bad".
type tokens map[string]string

func (v tokens) Verify(_ context.Context, token string, _ []string) (*request.User, []string, error) {
	if token == "bad" {
		return nil, nil, errors.New("expired")
	}
	if name := v[token]; name != "" {
		return &request.User{Name: name}, []string{"api"}, nil
	}
	return nil, nil, nil
}

func TestTokens(t *testing.T) {
	t.Parallel()
	authenticator := Tokens{tokens{"one": "jane"}, tokens{"two": "joe"}}
	tests := []struct {
		header, user string
		bad          bool
	}{
		{"", "", false},
		{"Bearer one", "jane", false},
		{"bearer two", "joe", false},
		{"  BEARER   one", "", false}, // the token is the empty text between the first two spaces
		{"Bearer one more", "jane", false},
		{"Bearer ", "", false},
		{"Bearer", "", false},
		{"Basic YWRtaW46YWRtaW4=", "", false},
		{"Bearer nonsense", "", true},
		{"Bearer bad", "", true},
	}
	for _, tt := range tests {
		r := httptest.NewRequest("GET", "/", nil)
		r = r.WithContext(request.NewContext(t.Context(), &request.Info{}, time.Now()))
		r.Header.Set("Authorization", tt.header)
		found, err := authenticator.Authenticate(r)
		if warned, want := len(request.WarningsFrom(r.Context())) > 0, strings.Contains(tt.header, "   "); warned != want {
			t.Errorf("%q: warning: %t, want %t", tt.header, warned, want)
		}
		name := ""
		if found != nil {
			name = found.User.Name
			if found.Credential != request.CredentialToken || len(found.Audiences) != 1 {
				t.Errorf("%q: credential %s for the audiences %q", tt.header, found.Credential, found.Audiences)
			}
			if diff := cmp.Diff([]string{request.GroupAuthenticated}, found.User.Groups); diff != "" {
				t.Errorf("%q: groups (-want +got):\n%s", tt.header, diff)
			}
		}
		if name != tt.user || errors.Is(err, ErrUnauthorized) != tt.bad {
			t.Errorf("%q: %q, %v; want %q, bad %t", tt.header, name, err, tt.user, tt.bad)
		}
	}
}

// TestAuthenticateToken checks the results for valid and unknown tokens, as in a TokenReview.
func TestAuthenticateToken(t *testing.T) {
	t.Parallel()
	verifiers := Tokens{tokens{"one": "jane"}}
	for token, want := range map[string]string{"one": "jane", "nonsense": "", "bad": ""} {
		found, err := verifiers.AuthenticateToken(t.Context(), token, []string{"api"})
		if (found == nil) != (want == "") || found != nil && found.User.Name != want || (err != nil) != (want == "") {
			t.Errorf("token %s: user %+v, error %v; want %q", token, found, err, want)
		}
	}
	if found, err := (Tokens{}).AuthenticateToken(t.Context(), "one", nil); found != nil || err == nil {
		t.Errorf("without verifiers: %+v, %v", found, err)
	}
}

// FuzzBearer checks that no header causes a panic or a token with a space.
func FuzzBearer(f *testing.F) {
	f.Add("Bearer abc")
	f.Add("  bearer\tabc def")
	f.Fuzz(func(t *testing.T, header string) {
		r := &http.Request{Header: http.Header{"Authorization": {header}}}
		if token := bearer(r); strings.Contains(token, " ") {
			t.Errorf("token of the header %q: %q, want no space", header, token)
		}
	})
}

type fixed struct {
	user *request.User
	err  error
}

func (f fixed) Authenticate(*http.Request) (*request.Authentication, error) {
	if f.user == nil {
		return nil, f.err
	}
	return &request.Authentication{User: f.user}, f.err
}

func TestUnion(t *testing.T) {
	t.Parallel()
	jane, bad := fixed{user: &request.User{Name: "jane"}}, fixed{err: ErrUnauthorized}
	tests := []struct {
		name  string
		union Union
		found bool
		err   bool
	}{
		{"no authenticators", nil, false, false},
		{"none found", Union{fixed{}, fixed{}}, false, false},
		{"the first", Union{jane, bad}, true, false},
		{"valid after invalid credentials", Union{bad, jane}, true, false},
		{"invalid credentials", Union{fixed{}, bad}, false, true},
	}
	for _, tt := range tests {
		user, err := tt.union.Authenticate(httptest.NewRequest("GET", "/", nil))
		if (user != nil) != tt.found || (err != nil) != tt.err {
			t.Errorf("%s: user %v, error %v; want a user: %t, an error: %t", tt.name, user, err, tt.found, tt.err)
		}
	}
}
