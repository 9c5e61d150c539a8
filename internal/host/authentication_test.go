package host

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"

	"mainstay.dev/mainstay/internal/controlplane"
	"mainstay.dev/mainstay/internal/filters/authn/oidc/oidctest"
	"mainstay.dev/mainstay/internal/telemetry"
	"mainstay.dev/mainstay/test/testserver"
)

// whoami returns the name and groups of the user that a token authenticates, or "" if the token is invalid.
// The server must authorize all requests.
func whoami(t testing.TB, s *running, token string) string {
	t.Helper()
	var self authenticationv1.SelfSubjectReview
	got := exchange(t, client(t, nil), "POST", s.URL+"/apis/authentication.k8s.io/v1/selfsubjectreviews", `{}`, &self, "Authorization", "Bearer "+token)
	if got != "201" {
		return ""
	}
	user := self.Status.UserInfo
	return fmt.Sprint(user.Username, user.Groups)
}

func everybody() controlplane.Options {
	return controlplane.Options{Authorization: controlplane.AuthorizationOptions{Modes: []string{"AlwaysAllow"}}}
}

func writeFile(t testing.TB, name, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestFileAndBootstrapTokens checks that both kinds of tokens are accepted if the flags enable
// them.
func TestFileAndBootstrapTokens(t *testing.T) {
	t.Parallel()
	options := everybody()
	options.Authentication.BootstrapTokens = true
	s := start(t, Config{ControlPlane: options, Authentication: AuthenticationConfig{TokenFile: TokenFileConfig{File: writeFile(t, "tokens.csv", "secret,jane,u1,\"devs,ops\"\n")}}})
	plain := start(t, Config{ControlPlane: everybody()})
	const body = `{"metadata":{"name":"bootstrap-token-abcdef"},"type":"bootstrap.kubernetes.io/token",
		"stringData":{"token-id":"abcdef","token-secret":"0123456789abcdef","usage-bootstrap-authentication":"true","auth-extra-groups":"system:bootstrappers:kubeadm"}}`
	for _, server := range []*running{s, plain} {
		if got := exchange(t, server.admin, "POST", server.URL+"/api/v1/namespaces/kube-system/secrets", body, nil); got != "201" {
			t.Fatal(got)
		}
	}
	const bootstrap = "abcdef.0123456789abcdef"
	for token, want := range map[string]string{
		"secret":  "jane[devs ops system:authenticated]",
		bootstrap: "system:bootstrap:abcdef[system:bootstrappers system:bootstrappers:kubeadm system:authenticated]",
		"other":   "",
	} {
		if got := whoami(t, s, token); got != want {
			t.Errorf("%s: %q, want %q", token, got, want)
		}
		if got := whoami(t, plain, token); got != "" {
			t.Errorf("%s, without flags: %q", token, got)
		}
	}
	_, metrics := fetch(t, s.admin, s.URL+"/metrics")
	for _, line := range []string{`authentication_attempts{result="error"} 1`, `authentication_attempts{result="success"} `, `authenticated_user_requests{username="other"} `} {
		if !strings.Contains(metrics, "\n"+line) {
			t.Errorf("/metrics has no line %s", line)
		}
	}
	if got := exchange(t, s.admin, "DELETE", s.URL+"/api/v1/namespaces/kube-system/secrets/bootstrap-token-abcdef", "", nil); got != "200" {
		t.Fatal(got)
	}
	if got := whoami(t, s, bootstrap); got != "" {
		t.Errorf("after its secret was deleted: %q", got)
	}
}

func TestOIDCFlags(t *testing.T) {
	t.Parallel()
	issuer := oidctest.New(t)
	issuer.TokenEndpoint = "https://token.example.com/token"
	s := start(t, Config{ControlPlane: everybody(), Authentication: AuthenticationConfig{JWT: JWTConfig{OIDC: OIDCConfig{
		IssuerURL: issuer.URL, ClientID: "kube", CAFile: writeFile(t, "ca.pem", issuer.CA()), GroupsClaim: "groups", GroupsPrefix: "oidc:",
		SigningAlgs: []string{"ES256"}, RequiredClaims: map[string]string{"tenant": "t"},
	}}}})
	if got, want := whoami(t, s, issuer.Token(t, map[string]any{"groups": "a", "tenant": "t"})), issuer.URL+"#jane[oidc:a system:authenticated]"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := whoami(t, s, issuer.Token(t, nil)); got != "" {
		t.Errorf("without a required claim: %q", got)
	}
	awaitSignIns(t, s, "https://token.example.com", issuer)
	for want, config := range map[string]OIDCConfig{
		"must be specified together":                                {IssuerURL: "https://x"},
		`"HS256" is not supported`:                                  {IssuerURL: "https://x", ClientID: "c", SigningAlgs: []string{"HS256"}},
		"URL scheme must be https":                                  {IssuerURL: "http://x", ClientID: "c"},
		"must not overlap with":                                     {IssuerURL: "https://kubernetes.default.svc.cluster.local", ClientID: "c"},
		"--oidc-ca-file: ":                                          {IssuerURL: "https://x", ClientID: "c", CAFile: "nowhere"},
		"are mutually exclusive":                                    {IssuerURL: "https://x", ClientID: "c"},
		"data does not contain any valid RSA or ECDSA certificates": {IssuerURL: "https://x", ClientID: "c", CAFile: writeFile(t, "ca.pem", "nonsense")},
	} {
		whole := Config{Storage: StorageConfig{DataDir: t.TempDir()}, Authentication: AuthenticationConfig{JWT: JWTConfig{OIDC: config}}}
		if strings.Contains(want, "exclusive") {
			whole.Authentication.JWT.ConfigFile = "x"
		}
		_, err := New(whole)
		if err == nil {
			err = starts(t, whole.Storage.DataDir, func(c *Config) { c.Authentication.JWT.OIDC = config })
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", config, err, want)
		}
	}
}

// TestAuthenticationConfig checks that the providers are reloaded when the file changes, and that a file that
// is invalid or changes the settings for anonymous requests has no effect.
func TestAuthenticationConfig(t *testing.T) {
	t.Parallel()
	issuer := oidctest.New(t)
	text := func(prefix, anonymous string) string {
		ca, err := json.Marshal(issuer.CA())
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprintf(`
apiVersion: apiserver.config.k8s.io/v1
kind: AuthenticationConfiguration
jwt:
- issuer: {url: %s, audiences: [kube], certificateAuthority: %s}
  claimMappings: {username: {expression: "'%s' + claims.sub"}}
anonymous: %s
`, issuer.URL, ca, prefix, anonymous)
	}
	const onlyHealth = "{enabled: true, conditions: [{path: /livez}]}"
	file := writeFile(t, "config.yaml", text("one:", onlyHealth))
	s := start(t, Config{Authentication: AuthenticationConfig{JWT: JWTConfig{ConfigFile: file}}})
	for path, want := range map[string]int{"/livez": 200, "/readyz": 401, "/version": 401, "/api": 401} {
		if code, _ := fetch(t, client(t, nil), s.URL+path); code != want {
			t.Errorf("%s: %d, want %d", path, code, want)
		}
	}
	token := issuer.Token(t, nil)
	user := func() string {
		return accountTokens{s}.review(t, token).User.Username
	}
	if got := user(); got != "one:jane" {
		t.Fatalf("user name %q, want one:jane", got)
	}
	reloaded := func(metric string) error {
		_, metrics := fetch(t, s.admin, s.URL+"/metrics")
		if !strings.Contains(metrics, "apiserver_authentication_config_controller_automatic_reloads_total{"+ofThisServer(t)+metric) {
			return fmt.Errorf("no reload is counted with %s", metric)
		}
		return nil
	}
	for _, step := range []struct{ text, user, metric string }{
		{"nonsense", "one:jane", `status="failure"} 1`},
		{text("two:", "{enabled: true}"), "one:jane", `status="failure"}`},
		{text("two:", onlyHealth), "two:jane", `status="success"} 1`},
	} {
		if err := os.WriteFile(file, []byte(step.text), 0o600); err != nil {
			t.Fatal(err)
		}
		testserver.Eventually(t, time.Minute, func() error { return reloaded(step.metric) })
		if got := user(); got != step.user {
			t.Errorf("%s: %q, want %q", step.text, got, step.user)
		}
	}
	if diff := cmp.Diff([]string{"https://kubernetes.default.svc.cluster.local"}, accountTokens{s}.review(t, token).Audiences); diff != "" {
		t.Errorf("audiences (-want +got):\n%s", diff)
	}
	if code, _ := fetch(t, client(t, nil), s.URL+"/livez"); code != http.StatusOK {
		t.Errorf("/livez: %d", code)
	}
}

// TestTokenWebhook checks that the webhook authenticates tokens that no other authenticator accepts, and that
// a token is invalid if the webhook rejects it.
func TestTokenWebhook(t *testing.T) {
	t.Parallel()
	webhook := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var review authenticationv1.TokenReview
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil || r.Header.Get("Authorization") != "Bearer mine" {
			t.Errorf("token review: error %v, headers %q", err, r.Header)
		}
		review.Status = authenticationv1.TokenReviewStatus{Authenticated: review.Spec.Token == "good", User: authenticationv1.UserInfo{Username: "jane"}}
		_ = json.NewEncoder(w).Encode(review)
	}))
	t.Cleanup(webhook.Close)
	file := writeFile(t, "kubeconfig", fmt.Sprintf(`
current-context: w
contexts: [{name: w, context: {cluster: w, user: w}}]
clusters: [{name: w, cluster: {server: %q}}]
users: [{name: w, user: {token: mine}}]
`, webhook.URL))
	s := start(t, Config{ControlPlane: everybody(), Authentication: AuthenticationConfig{TokenWebhook: TokenWebhookConfig{ConfigFile: file}}})
	for token, want := range map[string]string{"good": "jane[system:authenticated]", "bad": ""} {
		if got := whoami(t, s, token); got != want {
			t.Errorf("%s: %q, want %q", token, got, want)
		}
	}
}

// ofThisServer returns the metric label that identifies the server, followed by a comma.
func ofThisServer(t testing.TB) string {
	t.Helper()
	hostname, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("apiserver_id_hash=%q,", telemetry.Hash(telemetry.ServerID(hostname)))
}
