// Package serviceaccount signs, verifies and parses service account tokens (JSON Web Tokens).
// Package filters/authn checks that the account and the bound objects exist. The subresource
// serviceaccounts/token (apis/builtin/core) issues tokens.
package serviceaccount

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// Keys signs and verifies tokens. Implementations are safe for concurrent use.
type Keys interface {
	// Sign returns a signed token with the claims. It may block on a call to a plugin until ctx is done.
	Sign(ctx context.Context, claims *Claims) (string, error)
	// Verify returns the claims of a token if one of the keys has signed it. It does not check
	// expiration or audiences. Errors have kube-apiserver's messages and are sent to clients.
	Verify(ctx context.Context, token *Token) (*Claims, error)
	// Generation returns a number that changes when the set of valid keys changes. A verification
	// that was cached in another generation must be repeated.
	Generation() uint64
	// Published returns the public keys for other verifiers of tokens.
	Published() Published
}

// Published contains the public keys for other verifiers, and the time for which they may be cached.
type Published struct {
	Keys   []jose.JSONWebKey
	MaxAge time.Duration
}

// LocalKeys implements Keys with keys in the memory of the server. It is immutable.
type LocalKeys struct {
	signer jose.Signer
	public []jose.JSONWebKey
}

var _ Keys = (*LocalKeys)(nil)

// NewKeys returns keys that sign tokens with signer. Tokens are valid if they were signed with
// signer or with a key in more. NewKeys returns an error if a key is neither an RSA key nor an
// ECDSA key with the curve P-256, P-384 or P-521.
func NewKeys(signer crypto.Signer, more ...crypto.PublicKey) (*LocalKeys, error) {
	k := &LocalKeys{}
	for _, key := range append([]crypto.PublicKey{signer.Public()}, more...) {
		public, err := localJSONWebKey(key)
		if err != nil {
			return nil, err
		}
		if !slices.ContainsFunc(k.public, func(other jose.JSONWebKey) bool { return other.KeyID == public.KeyID }) {
			k.public = append(k.public, public)
		}
	}
	private := k.public[0]
	private.Key = signer
	var err error
	k.signer, err = jose.NewSigner(jose.SigningKey{Algorithm: jose.SignatureAlgorithm(private.Algorithm), Key: private}, nil)
	if err != nil {
		return nil, fmt.Errorf("create signer of service account tokens: %w", err)
	}
	return k, nil
}

// localJSONWebKey returns a public key as a JSON Web Key whose ID is a hash of the key.
func localJSONWebKey(key crypto.PublicKey) (jose.JSONWebKey, error) {
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		return jose.JSONWebKey{}, fmt.Errorf("encode service account key: %w", err)
	}
	sum := sha256.Sum256(der)
	return JSONWebKey(key, base64.RawURLEncoding.EncodeToString(sum[:]))
}

// JSONWebKey returns a public key as a JSON Web Key (RFC 7517) with the given ID. It returns an
// error if keys of this type cannot sign tokens.
func JSONWebKey(key crypto.PublicKey, id string) (jose.JSONWebKey, error) {
	algorithm, err := algorithmOf(key)
	return jose.JSONWebKey{Key: key, KeyID: id, Algorithm: string(algorithm), Use: "sig"}, err
}

func algorithmOf(key crypto.PublicKey) (jose.SignatureAlgorithm, error) {
	switch key := key.(type) {
	case *rsa.PublicKey:
		return jose.RS256, nil
	case *ecdsa.PublicKey:
		switch name := key.Curve.Params().Name; name {
		case "P-256":
			return jose.ES256, nil
		case "P-384":
			return jose.ES384, nil
		case "P-521":
			return jose.ES512, nil
		default:
			return "", fmt.Errorf("keys of service account tokens on the curve %s are not supported", name)
		}
	}
	return "", fmt.Errorf("a key of service account tokens is a %T; it must be an RSA or ECDSA key", key)
}

// JWKS returns the keys as a JSON Web Key Set (RFC 7517). It returns an error if a key is invalid.
func (p Published) JWKS() ([]byte, error) {
	return json.Marshal(jose.JSONWebKeySet{Keys: p.Keys})
}

// Algorithms returns the sorted names of the keys' algorithms, without duplicates.
func (p Published) Algorithms() []string {
	var names []string
	for _, key := range p.Keys {
		names = append(names, key.Algorithm)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Published implements Keys.
func (k *LocalKeys) Published() Published { return Published{Keys: k.public, MaxAge: time.Hour} }

// Generation implements Keys.
func (k *LocalKeys) Generation() uint64 { return 0 }

// Sign implements Keys.
func (k *LocalKeys) Sign(_ context.Context, claims *Claims) (string, error) {
	payload, err := claims.Encode()
	if err != nil {
		return "", err
	}
	signed, err := k.signer.Sign(payload)
	if err != nil {
		return "", fmt.Errorf("sign a service account token: %w", err)
	}
	return signed.CompactSerialize()
}

// Verify implements Keys.
func (k *LocalKeys) Verify(_ context.Context, token *Token) (*Claims, error) {
	return token.Verify(k.public)
}

// Token is a parsed token that has not been verified. It is immutable.
type Token struct {
	signature *jose.JSONWebSignature
	// Issuer is the value of the claim "iss", which is not verified.
	Issuer string
}

// Parse parses a token without verification. It returns nil if token is not a JSON Web Token with a
// supported algorithm.
func Parse(token string) *Token {
	signature, err := jose.ParseSignedCompact(token, []jose.SignatureAlgorithm{jose.RS256, jose.ES256, jose.ES384, jose.ES512})
	if err != nil {
		return nil
	}
	var claims struct {
		Issuer string `json:"iss"`
	}
	if json.Unmarshal(signature.UnsafePayloadWithoutVerification(), &claims) != nil {
		return nil
	}
	return &Token{signature: signature, Issuer: claims.Issuer}
}

// KeyID returns the unverified key ID in the token's header, or "" if there is none.
func (t *Token) KeyID() string { return t.signature.Signatures[0].Header.KeyID }

// Verify returns the claims of the token if one of the keys has signed it. If the token has a key
// ID, only the key with this ID is used. Expiration and audiences are not checked. It returns an
// error if no key has signed the token, or if the claims cannot be decoded.
func (t *Token) Verify(keys []jose.JSONWebKey) (*Claims, error) {
	id, err := t.KeyID(), errors.New("invalid signature, no keys found")
	for i := range keys {
		if key := &keys[i]; id == "" || key.KeyID == id {
			var payload []byte
			if payload, err = t.signature.Verify(key.Key); err == nil {
				return decodeClaims(payload)
			}
		}
	}
	return nil, err
}

// ParsePublicKeys parses public keys in PEM format. It also accepts certificates and private keys, and returns
// the public keys that they contain. It returns an error if there is no key, or if a key is invalid.
func ParsePublicKeys(data []byte) ([]crypto.PublicKey, error) {
	var keys []crypto.PublicKey
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		key, err := publicKey(block)
		if err != nil {
			return nil, err
		}
		if key != nil {
			keys = append(keys, key)
		}
	}
	if len(keys) == 0 {
		return nil, errors.New("data does not contain any valid RSA or ECDSA public keys")
	}
	return keys, nil
}

// publicKey returns the public key of a PEM block, or nil for a block of another type, such as
// curve parameters.
func publicKey(block *pem.Block) (crypto.PublicKey, error) {
	switch block.Type {
	case "PUBLIC KEY":
		return x509.ParsePKIXPublicKey(block.Bytes)
	case "RSA PUBLIC KEY":
		return x509.ParsePKCS1PublicKey(block.Bytes)
	case "CERTIFICATE":
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, err
		}
		return cert.PublicKey, nil
	}
	signer, err := privateKey(block)
	if err != nil || signer == nil {
		return nil, err
	}
	return signer.Public(), nil
}

// ParsePrivateKey returns the first private key in PEM data. It returns an error if there is no private key.
func ParsePrivateKey(data []byte) (crypto.Signer, error) {
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		if key, err := privateKey(block); key != nil || err != nil {
			return key, err
		}
	}
	return nil, errors.New("data does not contain a valid RSA or ECDSA private key")
}

func privateKey(block *pem.Block) (crypto.Signer, error) {
	switch block.Type {
	case "EC PRIVATE KEY":
		return x509.ParseECPrivateKey(block.Bytes)
	case "RSA PRIVATE KEY":
		return x509.ParsePKCS1PrivateKey(block.Bytes)
	case "PRIVATE KEY":
		key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
		if err != nil {
			return nil, err
		}
		signer, ok := key.(crypto.Signer)
		if !ok {
			return nil, fmt.Errorf("a %T cannot sign", key)
		}
		return signer, nil
	}
	return nil, nil
}
