package host

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mainstay.dev/mainstay/internal/controlplane"
	"mainstay.dev/mainstay/internal/filters/authn/serviceaccount/external/externaltest"
)

// exchange sends a request and decodes a successful response into answer. It returns the status code,
// followed by the message if the request was rejected.
func exchange(t testing.TB, c *http.Client, method, url, body string, answer any, header ...string) string {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	response, err := c.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	if response.StatusCode > 299 {
		var status metav1.Status
		_ = json.Unmarshal(data, &status) // status stays empty if the body is not a Status
		return fmt.Sprint(response.StatusCode, " ", status.Message)
	}
	if answer != nil {
		if err := json.Unmarshal(data, answer); err != nil {
			t.Fatal(err)
		}
	}
	return fmt.Sprint(response.StatusCode)
}

// accountTokens is a server with the service account a/bot and objects to bind its tokens to.
type accountTokens struct{ *running }

func startWithAccount(t *testing.T, config Config) accountTokens {
	t.Helper()
	s := accountTokens{start(t, config)}
	for _, object := range [][2]string{
		{"namespaces", `{"metadata":{"name":"a"}}`},
		{"nodes", `{"metadata":{"name":"n"}}`},
		{"namespaces/a/serviceaccounts", `{"metadata":{"name":"bot"}}`},
		{"namespaces/a/secrets", `{"metadata":{"name":"s"}}`},
		{"namespaces/a/pods", `{"metadata":{"name":"p"},"spec":{"serviceAccountName":"bot","nodeName":"n","containers":[{"name":"c","image":"i"}]}}`},
	} {
		s.must(t, "POST", object[0], object[1], nil)
	}
	return s
}

func (s accountTokens) must(t *testing.T, method, path, body string, answer any) {
	t.Helper()
	if got := exchange(t, s.admin, method, s.URL+"/api/v1/"+path, body, answer); !strings.HasPrefix(got, "20") {
		t.Fatalf("%s %s: %s", method, path, got)
	}
}

// token requests a token for the service account. spec is a TokenRequestSpec in JSON.
func (s accountTokens) token(t *testing.T, spec string) *authenticationv1.TokenRequest {
	t.Helper()
	var answer authenticationv1.TokenRequest
	s.must(t, "POST", "namespaces/a/serviceaccounts/bot/token", `{"spec":`+spec+`}`, &answer)
	return &answer
}

func (s accountTokens) refused(t *testing.T, body string) string {
	t.Helper()
	return exchange(t, s.admin, "POST", s.URL+"/api/v1/namespaces/a/serviceaccounts/bot/token", body, nil)
}

func (s accountTokens) review(t *testing.T, token string, audiences ...string) authenticationv1.TokenReviewStatus {
	t.Helper()
	body, err := json.Marshal(authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token, Audiences: audiences}})
	if err != nil {
		t.Fatal(err)
	}
	var answer authenticationv1.TokenReview
	if got := exchange(t, s.admin, "POST", s.URL+"/apis/authentication.k8s.io/v1/tokenreviews", string(body), &answer); got != "201" {
		t.Fatal(got)
	}
	return answer.Status
}

func claimsOf(t *testing.T, token string) map[string]any {
	t.Helper()
	payload, err := base64.RawURLEncoding.DecodeString(strings.Split(token, ".")[1])
	if err != nil {
		t.Fatal(err)
	}
	claims := map[string]any{}
	if err := json.Unmarshal(payload, &claims); err != nil {
		t.Fatal(err)
	}
	return claims
}

// TestTokens checks that a service account can request tokens and authenticate with them until the
// bound object is deleted.
func TestTokens(t *testing.T) {
	t.Parallel()
	s := startWithAccount(t, Config{ControlPlane: controlplane.Options{Authorization: controlplane.AuthorizationOptions{Modes: []string{"AlwaysAllow"}}}})
	plain := s.token(t, `{}`)
	if *plain.Spec.ExpirationSeconds != 3600 || !slices.Equal(plain.Spec.Audiences, []string{"https://kubernetes.default.svc.cluster.local"}) ||
		plain.Status.ExpirationTimestamp.Sub(plain.CreationTimestamp.Time) != time.Hour {
		t.Errorf("token request with defaults: %+v", plain)
	}
	claims := claimsOf(t, plain.Status.Token)
	wantUser := func(t *testing.T, token string, extra map[string]authenticationv1.ExtraValue) {
		t.Helper()
		if extra == nil {
			extra = map[string]authenticationv1.ExtraValue{}
		}
		extra["authentication.kubernetes.io/credential-id"] = []string{"JTI=" + claimsOf(t, token)["jti"].(string)}
		want := authenticationv1.UserInfo{
			Username: "system:serviceaccount:a:bot", UID: string(plain.UID), Extra: extra,
			Groups: []string{"system:serviceaccounts", "system:serviceaccounts:a", "system:authenticated"},
		}
		var self authenticationv1.SelfSubjectReview
		if got := exchange(t, client(t, nil), "POST", s.URL+"/apis/authentication.k8s.io/v1/selfsubjectreviews", `{}`, &self, "Authorization", "Bearer "+token); got != "201" {
			t.Fatal(got)
		}
		if diff := cmp.Diff(want, self.Status.UserInfo); diff != "" {
			t.Errorf("who am I (-want +got):\n%s", diff)
		}
		if status := s.review(t, token); !status.Authenticated || cmp.Diff(want, status.User) != "" {
			t.Errorf("review: %+v", status)
		}
	}
	wantUser(t, plain.Status.Token, nil)
	if claims["iss"] != "https://kubernetes.default.svc.cluster.local" || claims["sub"] != "system:serviceaccount:a:bot" || claims["exp"].(float64)-claims["nbf"].(float64) != 3600 {
		t.Errorf("claims of a token with defaults: %v", claims)
	}
	pod := s.token(t, `{"boundObjectRef":{"apiVersion":"v1","kind":"Pod","name":"p"},"expirationSeconds":3607}`)
	names := claimsOf(t, pod.Status.Token)["kubernetes.io"].(map[string]any)
	if lasts := claimsOf(t, pod.Status.Token)["exp"].(float64) - claimsOf(t, pod.Status.Token)["nbf"].(float64); lasts != 365*24*3600 || names["warnafter"] == nil {
		t.Errorf("the token of a pod is valid for %g s: %v", lasts, names)
	}
	ref := func(kind, key string) authenticationv1.ExtraValue {
		return []string{names[kind].(map[string]any)[key].(string)}
	}
	wantUser(t, pod.Status.Token, map[string]authenticationv1.ExtraValue{
		"authentication.kubernetes.io/pod-name": {"p"}, "authentication.kubernetes.io/pod-uid": ref("pod", "uid"),
		"authentication.kubernetes.io/node-name": {"n"}, "authentication.kubernetes.io/node-uid": ref("node", "uid"),
	})
	secret := s.token(t, `{"boundObjectRef":{"apiVersion":"v1","kind":"Secret","name":"s"}}`).Status.Token
	wantUser(t, secret, nil)
	node := s.token(t, `{"boundObjectRef":{"apiVersion":"v1","kind":"Node","name":"n"}}`).Status.Token
	if status := s.review(t, node); !status.Authenticated || status.User.Extra["authentication.kubernetes.io/node-name"][0] != "n" {
		t.Errorf("review of a token bound to a node: %+v", status)
	}
	const invalidated = "[invalid bearer token, service account token has been invalidated]"
	for _, gone := range []struct{ path, token, why string }{
		{"namespaces/a/pods/p?gracePeriodSeconds=0", pod.Status.Token, invalidated},
		{"namespaces/a/secrets/s", secret, invalidated},
		{"nodes/n", node, invalidated},
		{"namespaces/a/serviceaccounts/bot", plain.Status.Token, `[invalid bearer token, serviceaccounts "bot" not found]`},
	} {
		if status := s.review(t, gone.token); !status.Authenticated {
			t.Errorf("before %s is deleted: %s", gone.path, status.Error)
		}
		s.must(t, "DELETE", gone.path, "", nil)
		if status := s.review(t, gone.token); status.Authenticated || status.Error != gone.why {
			t.Errorf("after %s is deleted: %+v", gone.path, status)
		}
		if code, _ := fetch(t, client(t, nil), s.URL+"/version", "Authorization", "Bearer "+gone.token); code != 401 {
			t.Errorf("after %s is deleted: %d", gone.path, code)
		}
	}
	s.must(t, "POST", "namespaces/a/serviceaccounts", `{"metadata":{"name":"bot"}}`, nil)
	if status := s.review(t, plain.Status.Token); status.Authenticated || !strings.Contains(status.Error, "service account UID (") {
		t.Errorf("review after the account was created again: %+v", status)
	}
}

// TestTokenRejections checks rejected requests. The expected messages were recorded with kube-apiserver.
func TestTokenRejections(t *testing.T) {
	t.Parallel()
	s := startWithAccount(t, Config{})
	for body, want := range map[string]string{
		`{"spec":{"expirationSeconds":599}}`:                                                               `422 TokenRequest.authentication.k8s.io "" is invalid: spec.expirationSeconds: Invalid value: 599: may not specify a duration less than 10 minutes`,
		`{"spec":{"expirationSeconds":4294967297}}`:                                                        `422 TokenRequest.authentication.k8s.io "" is invalid: spec.expirationSeconds: Invalid value: 4294967297: may not specify a duration larger than 2^32 seconds`,
		`{"metadata":{"name":"other"}}`:                                                                    `422 TokenRequest.authentication.k8s.io "bot" is invalid: metadata.name: Invalid value: "other": must match the service account name if specified`,
		`{"metadata":{"namespace":"other"}}`:                                                               `400 the namespace of the provided object does not match the namespace sent on the request`,
		`{"spec":{"boundObjectRef":{"apiVersion":"v1","kind":"Pod","name":"none"}}}`:                       `404 pods "none" not found`,
		`{"spec":{"boundObjectRef":{"apiVersion":"v1","kind":"Node","name":"none"}}}`:                      `404 nodes "none" not found`,
		`{"spec":{"boundObjectRef":{"apiVersion":"v1","kind":"ConfigMap","name":"x"}}}`:                    `400 cannot bind token to object of type /v1, Kind=ConfigMap`,
		`{"spec":{"boundObjectRef":{"apiVersion":"v1","kind":"Pod","name":"p","uid":"x"}}}`:                `409 Operation cannot be fulfilled on Pod "p": the UID in the bound object reference (x) does not match the UID in record. The object might have been deleted and then recreated`,
		`{"metadata":{"uid":"x"}}`:                                                                         `409 Operation cannot be fulfilled on TokenRequest.authentication.k8s.io "bot": the UID in the token request (x) does not match the UID of the service account (`,
		`{"kind":"TokenRequest","apiVersion":"authentication.k8s.io/v1","spec":{"expirationSeconds":600}}`: `201`,
	} {
		if got := s.refused(t, body); !strings.HasPrefix(got, want) {
			t.Errorf("%s:\n got %s\nwant %s", body, got, want)
		}
	}
	s.must(t, "POST", "namespaces/a/serviceaccounts", `{"metadata":{"name":"other"}}`, nil)
	got := exchange(t, s.admin, "POST", s.URL+"/api/v1/namespaces/a/serviceaccounts/other/token", `{"spec":{"boundObjectRef":{"apiVersion":"v1","kind":"Pod","name":"p"}}}`, nil)
	if want := `400 cannot bind token for serviceaccount "other" to pod running with different serviceaccount name.`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got := exchange(t, s.admin, "POST", s.URL+"/api/v1/namespaces/a/serviceaccounts/none/token", `{}`, nil); got != `404 serviceaccounts "none" not found` {
		t.Error(got)
	}
}

// TestTokenReviews checks the reviews of valid and invalid tokens for several audiences.
func TestTokenReviews(t *testing.T) {
	t.Parallel()
	s := startWithAccount(t, Config{})
	const own = "https://kubernetes.default.svc.cluster.local"
	token := s.token(t, `{"expirationSeconds":600}`).Status.Token
	vault := s.token(t, `{"audiences":["vault","other"]}`).Status.Token
	unsigned, _, _ := strings.Cut(token, ".")
	parts := strings.Split(token, ".")
	for _, tt := range []struct {
		token           string
		audiences, want []string
		err             string
	}{
		{token, nil, []string{own}, ""},
		{token, []string{"vault", own}, []string{own}, ""},
		{token, []string{"vault"}, nil, `[invalid bearer token, token audiences ["https://kubernetes.default.svc.cluster.local"] is invalid for the target audiences ["vault"]]`},
		{vault, []string{"vault"}, []string{"vault"}, ""},
		{vault, nil, nil, `[invalid bearer token, token audiences ["vault" "other"] is invalid for the target audiences ["https://kubernetes.default.svc.cluster.local"]]`},
		{"nonsense", nil, nil, "invalid bearer token"},
		{unsigned, nil, nil, "invalid bearer token"},
		{parts[0] + "." + parts[1] + ".", nil, nil, "[invalid bearer token, go-jose/go-jose: error in cryptographic primitive]"},
		{parts[0] + "." + parts[1] + "." + strings.Split(vault, ".")[2], nil, nil, "[invalid bearer token, go-jose/go-jose: error in cryptographic primitive]"},
		{base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none"}`)) + "." + parts[1] + ".", nil, nil, "invalid bearer token"},
		{base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"ES256","kid":"x"}`)) + "." + parts[1] + "." + parts[2], nil, nil, "[invalid bearer token, invalid signature, no keys found]"},
	} {
		got := s.review(t, tt.token, tt.audiences...)
		if got.Error != tt.err || got.Authenticated != (tt.err == "") || !slices.Equal(got.Audiences, tt.want) {
			t.Errorf("%.20s… for %q: %+v", tt.token, tt.audiences, got)
		}
	}
	other := startWithAccount(t, Config{})
	if got := other.review(t, token); got.Authenticated {
		t.Error("a token of another server was accepted")
	}
}

func writePEM(t *testing.T, kind string, der []byte, err error) string {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "key.pem")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestTokenKeys checks that tokens of former keys and issuers are accepted, that discovery returns all keys,
// and that the maximum lifetime of tokens applies.
func TestTokenKeys(t *testing.T) {
	t.Parallel()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	file := writePEM(t, "RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(key), nil)
	dir := t.TempDir()
	first := startWithAccount(t, Config{
		Storage:        StorageConfig{DataDir: dir},
		Authentication: AuthenticationConfig{ServiceAccountKeys: ServiceAccountKeysConfig{SigningKeyFile: file}},
		ControlPlane:   controlplane.Options{ServiceAccounts: controlplane.ServiceAccountOptions{Issuers: []string{"https://old.example.com"}}},
	})
	old := first.token(t, `{"audiences":["x"]}`).Status.Token
	if status := first.review(t, old, "x"); !status.Authenticated {
		t.Fatal(status.Error)
	}
	first.end(t)
	ec, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKIXPublicKey(ec.Public())
	s := accountTokens{start(t, Config{
		Storage:        StorageConfig{DataDir: dir},
		Authentication: AuthenticationConfig{ServiceAccountKeys: ServiceAccountKeysConfig{KeyFiles: []string{file, writePEM(t, "PUBLIC KEY", der, err)}}},
		ControlPlane: controlplane.Options{
			ServiceAccounts: controlplane.ServiceAccountOptions{Issuers: []string{"https://new.example.com", "https://old.example.com"}, JWKSURI: "https://keys.example.com/jwks", MaxTokenExpiration: time.Hour},
			Authentication:  controlplane.AuthenticationOptions{APIAudiences: []string{"api"}},
		},
	})}
	if status := s.review(t, old, "x"); !status.Authenticated {
		t.Error(status.Error)
	}
	asked := s.token(t, `{"expirationSeconds":7200}`)
	if claims := claimsOf(t, asked.Status.Token); claims["iss"] != "https://new.example.com" || *asked.Spec.ExpirationSeconds != 3600 || !slices.Equal(asked.Spec.Audiences, []string{"api"}) {
		t.Errorf("claims of a token with the new issuer: %v", claims)
	}
	_, body := fetch(t, s.admin, s.URL+"/.well-known/openid-configuration")
	if want := `{"issuer":"https://new.example.com","jwks_uri":"https://keys.example.com/jwks","response_types_supported":["id_token"],"subject_types_supported":["public"],"id_token_signing_alg_values_supported":["ES256","ES384","RS256"]}`; body != want {
		t.Errorf("%s, want %s", body, want)
	}
	if _, body = fetch(t, s.admin, s.URL+"/openid/v1/jwks"); strings.Count(body, `"kid"`) != 3 {
		t.Error(body)
	}
}

// TestExternalSigner checks that an external signer signs the tokens, and that its keys are published and valid
// until the signer replaces them.
func TestExternalSigner(t *testing.T) {
	t.Parallel()
	plugin := externaltest.New(t)
	s := startWithAccount(t, Config{Authentication: AuthenticationConfig{ServiceAccountKeys: ServiceAccountKeysConfig{SigningEndpoint: plugin.Socket}}})
	token := s.token(t, `{"expirationSeconds":86400}`)
	if *token.Spec.ExpirationSeconds != int64(externaltest.MaxExpiration/time.Second) {
		t.Errorf("the token is valid for %d s", *token.Spec.ExpirationSeconds)
	}
	if status := s.review(t, token.Status.Token); !status.Authenticated {
		t.Errorf("review of an externally signed token: %+v", status)
	}
	pod := claimsOf(t, s.token(t, `{"boundObjectRef":{"apiVersion":"v1","kind":"Pod","name":"p"},"expirationSeconds":3607}`).Status.Token)
	if lasts := pod["exp"].(float64) - pod["nbf"].(float64); lasts != externaltest.MaxExpiration.Seconds() {
		t.Errorf("the token of a pod is valid for %g s", lasts)
	}
	if _, body := fetch(t, s.admin, s.URL+"/openid/v1/jwks"); !strings.Contains(body, `"kid":"1"`) {
		t.Error(body)
	}
	plugin.SetResponses(func(a *externaltest.Responses) { a.Keys = nil })
	plugin.Rotate(t, "2")
	_ = s.token(t, `{}`) // signed with a key that the server must fetch
	if status := s.review(t, token.Status.Token); status.Authenticated {
		t.Error("a token that was signed with a removed key is valid")
	}
	if _, body := fetch(t, s.admin, s.URL+"/openid/v1/jwks"); strings.Contains(body, `"kid":"1"`) || !strings.Contains(body, `"kid":"2"`) {
		t.Error(body)
	}
	if _, body := fetch(t, s.admin, s.URL+"/metrics"); !strings.Contains(body, `apiserver_externaljwt_sign_request_total{code="OK"} 3`) {
		t.Error("signatures are not counted")
	}
	for want, config := range map[string]ServiceAccountKeysConfig{
		"service-account-signing-key-file and service-account-signing-endpoint are mutually exclusive": {SigningKeyFile: "x"},
		"service-account-key-file and service-account-signing-endpoint are mutually exclusive":         {KeyFiles: []string{"x"}},
	} {
		config.SigningEndpoint = plugin.Socket
		if _, err := New(Config{Authentication: AuthenticationConfig{ServiceAccountKeys: config}}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
