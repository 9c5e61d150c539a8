package serviceaccount

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"slices"
	"strings"
	"testing"

	"github.com/go-jose/go-jose/v4/jwt"
)

func block(t testing.TB, kind string, der []byte, err error) []byte {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

func newEC(t testing.TB, curve elliptic.Curve) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(curve, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// TestKeyFiles checks that the key formats that openssl writes can be parsed.
func TestKeyFiles(t *testing.T) {
	t.Parallel()
	ec := newEC(t, elliptic.P256())
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	sec1, err := x509.MarshalECPrivateKey(ec)
	private := block(t, "EC PRIVATE KEY", sec1, err)
	pkcs8, err := x509.MarshalPKCS8PrivateKey(rsaKey)
	pkix, err2 := x509.MarshalPKIXPublicKey(ec.Public())
	files := map[string][]byte{
		"SEC 1": private, "PKCS 8": block(t, "PRIVATE KEY", pkcs8, err), "PKCS 1": block(t, "RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(rsaKey), nil),
		"after EC parameters": slices.Concat(block(t, "EC PARAMETERS", []byte{1}, nil), private),
	}
	for name, file := range files {
		if key, err := ParsePrivateKey(file); err != nil || key == nil {
			t.Errorf("%s: parse the private key: %v", name, err)
		}
		if keys, err := ParsePublicKeys(file); err != nil || len(keys) != 1 {
			t.Errorf("%s: parse the public keys: %v", name, err)
		}
	}
	public := slices.Concat(block(t, "PUBLIC KEY", pkix, err2), block(t, "RSA PUBLIC KEY", x509.MarshalPKCS1PublicKey(&rsaKey.PublicKey), nil))
	if keys, err := ParsePublicKeys(public); err != nil || len(keys) != 2 {
		t.Errorf("two keys: %d, %v", len(keys), err)
	}
	for _, bad := range [][]byte{nil, []byte("nonsense"), public, block(t, "PRIVATE KEY", []byte{1}, nil)} {
		if key, err := ParsePrivateKey(bad); err == nil {
			t.Errorf("parse the private key %q: %v, want an error", bad, key)
		}
	}
}

func TestUnsupportedKeys(t *testing.T) {
	t.Parallel()
	_, edwards, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := NewKeys(edwards); err == nil || !strings.Contains(err.Error(), "RSA or ECDSA") {
		t.Errorf("an Ed25519 key: error %v", err)
	}
	if _, err := NewKeys(newEC(t, elliptic.P224())); err == nil || !strings.Contains(err.Error(), "P-224") {
		t.Errorf("a P-224 key: error %v", err)
	}
}

// TestSign checks, for each ECDSA algorithm, that signed tokens can be verified, and that only
// public keys are published.
func TestSign(t *testing.T) {
	t.Parallel()
	for _, curve := range []elliptic.Curve{elliptic.P256(), elliptic.P384(), elliptic.P521()} {
		key := newEC(t, curve)
		keys, err := NewKeys(newEC(t, curve), key.Public(), key.Public())
		if err != nil {
			t.Fatal(err)
		}
		if n := len(keys.public); n != 2 {
			t.Errorf("%d public keys, want 2", n)
		}
		token, err := keys.Sign(t.Context(), &Claims{Claims: jwt.Claims{Issuer: "i"}, Audience: []string{"a"}, Bound: &Bound{Namespace: "n"}})
		if err != nil {
			t.Fatal(err)
		}
		claims, err := keys.Verify(t.Context(), Parse(token))
		if err != nil || claims.Issuer != "i" || claims.Bound.Namespace != "n" {
			t.Errorf("verify the token: claims %+v, error %v", claims, err)
		}
		if document, err := keys.Published().JWKS(); err != nil || bytes.Contains(document, []byte(`"d"`)) {
			t.Errorf("the key set contains a private key: %s, %v", document, err)
		}
	}
}

// TestAudience checks that signed tokens contain a list of audiences, and that a single string can
// be verified.
func TestAudience(t *testing.T) {
	t.Parallel()
	data, err := json.Marshal(&Claims{Audience: []string{"a"}})
	if err != nil || !bytes.Contains(data, []byte(`"aud":["a"]`)) {
		t.Errorf("encode the claims: %s, error %v; want a list of audiences", data, err)
	}
	for _, text := range []string{`{"aud":"a"}`, `{"aud":["a"]}`} {
		claims, err := decodeClaims([]byte(text))
		if err != nil || !slices.Equal(claims.Audience, []string{"a"}) {
			t.Errorf("decode %s: claims %+v, error %v", text, claims, err)
		}
	}
	if claims, err := decodeClaims([]byte(`{"aud":1}`)); err == nil {
		t.Errorf("decode an audience that is a number: claims %+v, want an error", claims)
	}
}

// FuzzParse checks that the parser does not panic, and that no unsigned token is valid.
func FuzzParse(f *testing.F) {
	keys, err := NewKeys(newEC(f, elliptic.P256()))
	if err != nil {
		f.Fatal(err)
	}
	good, err := keys.Sign(f.Context(), &Claims{Claims: jwt.Claims{Issuer: "i"}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add("a.b.c")
	f.Fuzz(func(t *testing.T, token string) {
		if parsed := Parse(token); parsed != nil && !strings.HasPrefix(token, good[:strings.LastIndexByte(good, '.')]) {
			if claims, err := keys.Verify(t.Context(), parsed); err == nil {
				t.Errorf("%q is accepted: %+v", token, claims)
			}
		}
	})
}

func BenchmarkVerify(b *testing.B) {
	keys, err := NewKeys(newEC(b, elliptic.P256()))
	if err != nil {
		b.Fatal(err)
	}
	token, err := keys.Sign(b.Context(), &Claims{Claims: jwt.Claims{Issuer: "i"}, Bound: &Bound{Namespace: "n"}})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := keys.Verify(b.Context(), Parse(token)); err != nil {
			b.Fatal(err)
		}
	}
}
