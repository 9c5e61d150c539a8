// Package oidctest provides an OpenID Connect provider for tests.
package oidctest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"encoding/pem"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// Issuer is an OpenID Connect provider that listens on a loopback address with TLS.
type Issuer struct {
	*httptest.Server
	// Key signs tokens. Its public part is published.
	Key atomic.Pointer[jose.JSONWebKey]
	// Fetches counts requests. While Down is true, all requests fail with 503.
	Fetches atomic.Int32
	Down    atomic.Bool
	// Sources maps additional paths to response bodies. They require the access token "source". Set it before
	// the first request.
	Sources map[string]string
	// DiscoveryIssuer is the issuer in the discovery document. "" selects the URL of the server.
	DiscoveryIssuer string
	// TokenEndpoint is the token endpoint in the discovery document. "" omits it and the authorization
	// endpoint, as for a provider without sign-ins.
	TokenEndpoint string
}

// New starts a provider with a new key. It is closed at the end of the test.
func New(t testing.TB) *Issuer {
	t.Helper()
	i := &Issuer{}
	i.Rotate(t, "1")
	i.Server = httptest.NewTLSServer(http.HandlerFunc(i.serve))
	t.Cleanup(i.Close)
	return i
}

// Rotate replaces the key with a new key that has the given ID. It is safe for concurrent use.
func (i *Issuer) Rotate(t testing.TB, id string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	i.Key.Store(&jose.JSONWebKey{Key: key, KeyID: id, Algorithm: string(jose.ES256), Use: "sig"})
}

func (i *Issuer) serve(w http.ResponseWriter, r *http.Request) {
	i.Fetches.Add(1)
	if i.Down.Load() {
		http.Error(w, "down", http.StatusServiceUnavailable)
		return
	}
	switch r.URL.Path {
	case "/.well-known/openid-configuration":
		name := i.DiscoveryIssuer
		if name == "" {
			name = i.URL
		}
		document := map[string]string{"issuer": name, "jwks_uri": i.URL + "/keys"}
		if i.TokenEndpoint != "" {
			document["authorization_endpoint"], document["token_endpoint"] = i.URL+"/authorize", i.TokenEndpoint
		}
		_ = json.NewEncoder(w).Encode(document)
	case "/keys":
		_ = json.NewEncoder(w).Encode(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{i.Key.Load().Public()}})
	default:
		body, ok := i.Sources[r.URL.Path]
		if !ok || r.Header.Get("Authorization") != "Bearer source" {
			http.NotFound(w, r)
			return
		}
		_, _ = io.WriteString(w, body)
	}
}

// CA returns the certificate of the server in PEM.
func (i *Issuer) CA() string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: i.Certificate().Raw}))
}

// Token returns a token that is signed with the current key. It has default claims, which more
// overrides; a nil value removes a claim.
func (i *Issuer) Token(t testing.TB, more map[string]any) string {
	t.Helper()
	claims := map[string]any{"iss": i.URL, "aud": "kube", "sub": "jane", "exp": time.Now().Add(time.Hour).Unix()}
	maps.Copy(claims, more)
	maps.DeleteFunc(claims, func(_ string, v any) bool { return v == nil })
	key := i.Key.Load()
	return Sign(t, jose.ES256, key, claims)
}

// Sign returns a signed token with the given claims.
func Sign(t testing.TB, algorithm jose.SignatureAlgorithm, key any, claims map[string]any) string {
	t.Helper()
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: algorithm, Key: key}, nil)
	if err != nil {
		t.Fatal(err)
	}
	payload, err := json.Marshal(claims)
	if err != nil {
		t.Fatal(err)
	}
	signed, err := signer.Sign(payload)
	if err != nil {
		t.Fatal(err)
	}
	token, err := signed.CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	return token
}
