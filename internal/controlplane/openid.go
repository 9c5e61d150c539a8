package controlplane

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mainstay.dev/mainstay/internal/endpoints"
	"mainstay.dev/mainstay/internal/filters/authn/serviceaccount"
)

// Paths of service account issuer discovery. Other programs use it to verify tokens without a
// TokenReview.
const (
	openIDConfigurationPath = "/.well-known/openid-configuration"
	openIDKeysPath          = "/openid/v1/jwks"
)

// openIDConfiguration is the discovery document. Its fields have the same order as in
// kube-apiserver.
type openIDConfiguration struct {
	Issuer        string   `json:"issuer"`
	KeysURI       string   `json:"jwks_uri"`
	ResponseTypes []string `json:"response_types_supported"`
	SubjectTypes  []string `json:"subject_types_supported"`
	Algorithms    []string `json:"id_token_signing_alg_values_supported"`
}

// newOpenIDHandlers returns, by path, the handlers that publish the issuer and the public keys of
// service account tokens. It returns nil if the issuer is not an https URL, because clients could
// not find the documents.
func newOpenIDHandlers(s *settings, api *endpoints.API) map[string]http.Handler {
	issuer := s.options.ServiceAccounts.Issuers[0]
	if u, err := url.Parse(issuer); err != nil || u.Scheme != "https" {
		s.env.Telemetry.Logger.Warn("OpenID discovery is not served, because the issuer of service account tokens is not an https URL", "issuer", issuer)
		return nil
	}
	uri := s.options.ServiceAccounts.JWKSURI
	if uri == "" {
		uri = s.env.Network.PublicURL + openIDKeysPath
	}
	configuration := func(keys serviceaccount.Published) ([]byte, error) {
		return json.Marshal(openIDConfiguration{
			Issuer: issuer, KeysURI: uri, ResponseTypes: []string{"id_token"}, SubjectTypes: []string{"public"}, Algorithms: keys.Algorithms(),
		})
	}
	keys := s.env.Identity.TokenKeys
	return map[string]http.Handler{
		openIDConfigurationPath: api.ReadOnly(newKeyDocumentHandler(api, keys, "application/json", configuration)),
		openIDKeysPath:          api.ReadOnly(newKeyDocumentHandler(api, keys, "application/jwk-set+json", serviceaccount.Published.JWKS)),
	}
}

// newKeyDocumentHandler returns a handler that serves a document about the current keys. It
// responds with 406 to clients that do not accept the media type of the document.
func newKeyDocumentHandler(api *endpoints.API, keys serviceaccount.Keys, contentType string, document func(serviceaccount.Published) ([]byte, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !accepts(r.Header.Get("Accept"), contentType) {
			endpoints.WriteStatus(w, r, &metav1.Status{
				Status: metav1.StatusFailure, Code: http.StatusNotAcceptable, Reason: metav1.StatusReasonNotAcceptable, Details: &metav1.StatusDetails{},
				Message: "406: Not Acceptable\n\nAvailable representations: " + contentType,
			})
			return
		}
		published := keys.Published()
		body, err := document(published)
		if err != nil {
			api.WriteError(w, r, apierrors.NewInternalError(fmt.Errorf("publish the keys of service account tokens: %w", err)))
			return
		}
		w.Header().Set("Content-Type", contentType)
		w.Header().Set("Cache-Control", fmt.Sprintf("public, max-age=%d", int(published.MaxAge.Seconds())))
		_, _ = w.Write(body) // an error means that the client has disconnected
	})
}

// accepts reports whether an Accept header allows a media type.
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
