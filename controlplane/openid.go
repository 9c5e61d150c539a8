package controlplane

import (
	"crypto/ecdsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mainstay.dev/mainstay/endpoints"
)

// Paths of service account issuer discovery, for verifying tokens without a
// TokenReview.
const (
	openIDConfigurationPath = "/.well-known/openid-configuration"
	openIDKeysPath          = "/openid/v1/jwks"
)

// defaultIssuer is the issuer of service account tokens.
const defaultIssuer = "https://kubernetes.default.svc.cluster.local"

// openIDConfiguration has its fields in kube-apiserver's order.
type openIDConfiguration struct {
	Issuer        string   `json:"issuer"`
	KeysURI       string   `json:"jwks_uri"`
	ResponseTypes []string `json:"response_types_supported"`
	SubjectTypes  []string `json:"subject_types_supported"`
	Algorithms    []string `json:"id_token_signing_alg_values_supported"`
}

// webKey is a JSON Web Key (RFC 7517) on an elliptic curve.
type webKey struct {
	Use       string `json:"use"`
	Type      string `json:"kty"`
	ID        string `json:"kid"`
	Curve     string `json:"crv"`
	Algorithm string `json:"alg"`
	X         string `json:"x"`
	Y         string `json:"y"`
}

// installOpenID serves the issuer and the public key of service account tokens.
func (i *instance) installOpenID() error {
	key, err := newWebKey(i.env.Identity.Signer.Public())
	if err != nil {
		return fmt.Errorf("publish the key of service account tokens: %w", err)
	}
	keys, err := json.Marshal(map[string][]webKey{"keys": {key}})
	if err != nil {
		return fmt.Errorf("publish the key of service account tokens: %w", err)
	}
	configuration, err := json.Marshal(openIDConfiguration{
		Issuer: defaultIssuer, KeysURI: i.env.PublicURL + openIDKeysPath,
		ResponseTypes: []string{"id_token"}, SubjectTypes: []string{"public"}, Algorithms: []string{key.Algorithm},
	})
	if err != nil {
		return fmt.Errorf("publish the issuer of service account tokens: %w", err)
	}
	i.paths.handle(openIDConfigurationPath, openIDHandler("application/json", configuration))
	i.paths.handle(openIDKeysPath, openIDHandler("application/jwk-set+json", keys))
	return nil
}

func newWebKey(public any) (webKey, error) {
	key, ok := public.(*ecdsa.PublicKey)
	if !ok {
		return webKey{}, fmt.Errorf("the key is a %T, not an ECDSA key", public)
	}
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		return webKey{}, err
	}
	point, err := key.Bytes() // 4, x, y
	if err != nil {
		return webKey{}, err
	}
	if key.Curve.Params().Name != "P-256" || len(point) != 65 {
		return webKey{}, errors.New("the key is not on the curve P-256")
	}
	id, encoding := sha256.Sum256(der), base64.RawURLEncoding
	return webKey{
		Use: "sig", Type: "EC", ID: encoding.EncodeToString(id[:]), Curve: "P-256", Algorithm: "ES256",
		X: encoding.EncodeToString(point[1:33]), Y: encoding.EncodeToString(point[33:]),
	}, nil
}

// openIDHandler serves a document of one media type, and 406 to clients that do not
// accept it.
func openIDHandler(contentType string, body []byte) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !accepts(r.Header.Get("Accept"), contentType) {
			endpoints.WriteStatus(w, r, &metav1.Status{
				Status: metav1.StatusFailure, Code: http.StatusNotAcceptable, Reason: metav1.StatusReasonNotAcceptable, Details: &metav1.StatusDetails{},
				Message: "406: Not Acceptable\n\nAvailable representations: " + contentType,
			})
			return
		}
		w.Header().Set("Content-Type", contentType)
		w.Header().Set("Cache-Control", "public, max-age=3600")
		_, _ = w.Write(body) // the client is gone
	})
}

func accepts(accept, contentType string) bool {
	if accept == "" {
		return true
	}
	family, _, _ := strings.Cut(contentType, "/")
	for clause := range strings.SplitSeq(accept, ",") {
		media, _, _ := strings.Cut(clause, ";")
		switch strings.TrimSpace(media) {
		case contentType, "*/*", family + "/*":
			return true
		}
	}
	return false
}
