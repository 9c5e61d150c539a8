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
	"mainstay.dev/mainstay/internal/serviceaccount"
)

// Paths of service account issuer discovery, for verifying tokens without a
// TokenReview.
const (
	openIDConfigurationPath = "/.well-known/openid-configuration"
	openIDKeysPath          = "/openid/v1/jwks"
)

// openIDConfiguration has its fields in kube-apiserver's order.
type openIDConfiguration struct {
	Issuer        string   `json:"issuer"`
	KeysURI       string   `json:"jwks_uri"`
	ResponseTypes []string `json:"response_types_supported"`
	SubjectTypes  []string `json:"subject_types_supported"`
	Algorithms    []string `json:"id_token_signing_alg_values_supported"`
}

// installOpenID serves the issuer and the public keys of service account tokens, if
// others can find them: the issuer has to be an https URL.
func (i *instance) installOpenID() {
	issuer := i.options.ServiceAccountIssuers[0]
	if u, err := url.Parse(issuer); err != nil || u.Scheme != "https" {
		i.env.Logger.Warn("OpenID discovery is not served, as the issuer of service account tokens is no https URL", "issuer", issuer)
		return
	}
	uri := i.options.ServiceAccountJWKSURI
	if uri == "" {
		uri = i.env.PublicURL + openIDKeysPath
	}
	configuration := func(keys serviceaccount.Published) ([]byte, error) {
		return json.Marshal(openIDConfiguration{
			Issuer: issuer, KeysURI: uri, ResponseTypes: []string{"id_token"}, SubjectTypes: []string{"public"}, Algorithms: keys.Algorithms(),
		})
	}
	i.paths.handle(openIDConfigurationPath, i.readOnly(i.openIDHandler("application/json", configuration)))
	i.paths.handle(openIDKeysPath, i.readOnly(i.openIDHandler("application/jwk-set+json", serviceaccount.Published.Document)))
}

// openIDHandler serves a document about the keys as they are, of one media type, and 406 to
// clients that do not accept it.
func (i *instance) openIDHandler(contentType string, document func(serviceaccount.Published) ([]byte, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !accepts(r.Header.Get("Accept"), contentType) {
			endpoints.WriteStatus(w, r, &metav1.Status{
				Status: metav1.StatusFailure, Code: http.StatusNotAcceptable, Reason: metav1.StatusReasonNotAcceptable, Details: &metav1.StatusDetails{},
				Message: "406: Not Acceptable\n\nAvailable representations: " + contentType,
			})
			return
		}
		keys := i.env.Identity.TokenKeys.Published()
		body, err := document(keys)
		if err != nil {
			i.api.WriteError(w, r, apierrors.NewInternalError(fmt.Errorf("publish the keys of service account tokens: %w", err)))
			return
		}
		w.Header().Set("Content-Type", contentType)
		w.Header().Set("Cache-Control", fmt.Sprintf("public, max-age=%d", int(keys.MaxAge.Seconds())))
		_, _ = w.Write(body) // the client has disconnected
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
