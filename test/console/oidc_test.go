package console

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-rod/rod"

	"mainstay.dev/mainstay/internal/filters/authn/oidc/oidctest"
	"mainstay.dev/mainstay/test/testserver"
)

const (
	oidcClient    = "mainstay-console"
	oidcCode      = "the-authorization-code"
	discoveryPath = "/.well-known/openid-configuration"
)

// provider is an OpenID Connect provider for clients without a secret. Its page has the links Approve and
// Reject. The origin of its token endpoint differs from the origin of its page.
type provider struct {
	*httptest.Server
	tokens  *httptest.Server
	t       *testing.T
	key     *rsa.PrivateKey
	request atomic.Pointer[url.Values] // the parameters of the last authorization request
	noCORS  atomic.Bool                // the token endpoint sends no CORS headers
	foreign atomic.Bool                // issues ID tokens for another client
}

func newProvider(t *testing.T) *provider {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	p := &provider{t: t, key: key}
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+discoveryPath, func(w http.ResponseWriter, _ *http.Request) {
		p.respond(w, map[string]any{
			"issuer": p.URL, "authorization_endpoint": p.URL + "/authorize?tenant=a", "token_endpoint": p.tokens.URL + "/token", "jwks_uri": p.URL + "/keys",
			"scopes_supported": []string{"openid", "email", "groups"}, "id_token_signing_alg_values_supported": []string{"RS256"},
		})
	})
	mux.HandleFunc("GET /keys", func(w http.ResponseWriter, _ *http.Request) {
		p.respond(w, jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: key.Public(), KeyID: "1", Algorithm: "RS256", Use: "sig"}}})
	})
	mux.HandleFunc("GET /authorize", p.authorize)
	mux.HandleFunc("GET /approve", func(w http.ResponseWriter, r *http.Request) { p.redirect(w, r, url.Values{"code": {oidcCode}}) })
	mux.HandleFunc("GET /reject", func(w http.ResponseWriter, r *http.Request) {
		p.redirect(w, r, url.Values{"error": {"access_denied"}, "error_description": {"The administrator must approve <b>this</b> application"}})
	})
	p.tokens = httptest.NewTLSServer(http.HandlerFunc(p.token))
	t.Cleanup(p.tokens.Close)
	p.Server = httptest.NewTLSServer(mux)
	t.Cleanup(p.Close)
	return p
}

// authenticator returns the YAML of an authenticator that accepts tokens of the provider. prefix is prepended
// to the names of users and groups.
func (p *provider) authenticator(prefix string) string {
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: p.Certificate().Raw})
	return fmt.Sprintf(`
- issuer: {url: %q, audiences: [%s, other], audienceMatchPolicy: MatchAny, certificateAuthority: %q}
  claimMappings: {username: {claim: email, prefix: %q}, groups: {claim: groups, prefix: %[4]q}}`, p.URL, oidcClient, authority, prefix)
}

// button returns the text of the button for signing in with the provider.
func (p *provider) button() string { return "Sign in with " + strings.TrimPrefix(p.URL, "https://") }

func (p *provider) respond(w http.ResponseWriter, value any) {
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(value); err != nil {
		p.t.Error(err)
	}
}

func (p *provider) authorize(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	p.request.Store(&query)
	for name, want := range map[string]string{"response_type": "code", "client_id": oidcClient, "scope": "openid email groups", "code_challenge_method": "S256", "tenant": "a"} {
		if got := query.Get(name); got != want {
			p.t.Errorf("the authorization request has %s=%q, want %q", name, got, want)
		}
	}
	if len(query.Get("state")) < 40 || len(query.Get("code_challenge")) != 43 {
		p.t.Errorf("the authorization request is %v", query)
	}
	w.Header().Set("Content-Type", "text/html")
	fmt.Fprint(w, `<!doctype html><title>Provider</title><h1>Provider</h1><a href="/approve">Approve</a> <a href="/reject">Reject</a>`)
}

// redirect redirects the browser to the console, with parameters and the state of the last authorization
// request.
func (p *provider) redirect(w http.ResponseWriter, r *http.Request, parameters url.Values) {
	request := *p.request.Load()
	parameters.Set("state", request.Get("state"))
	http.Redirect(w, r, request.Get("redirect_uri")+"?"+parameters.Encode(), http.StatusFound)
}

func (p *provider) token(w http.ResponseWriter, r *http.Request) {
	if !p.noCORS.Load() {
		w.Header().Set("Access-Control-Allow-Origin", "*") // lets pages of other origins read the response
	}
	request := *p.request.Load()
	challenge := sha256.Sum256([]byte(r.PostFormValue("code_verifier")))
	switch {
	case r.Method != http.MethodPost, r.PostFormValue("grant_type") != "authorization_code", r.PostFormValue("code") != oidcCode, r.PostFormValue("client_id") != oidcClient,
		r.PostFormValue("redirect_uri") != request.Get("redirect_uri"), r.Header.Get("Authorization") != "",
		base64.RawURLEncoding.EncodeToString(challenge[:]) != request.Get("code_challenge"):
		p.t.Errorf("the token request is %v %v", r.Header, r.PostForm)
		http.Error(w, `{"error":"invalid_grant"}`, http.StatusBadRequest)
		return
	}
	audience := oidcClient
	if p.foreign.Load() {
		audience = "another-client"
	}
	claims := map[string]any{"iss": p.URL, "aud": audience, "sub": "1", "email": "jane@example.com", "groups": []string{"dev"}, "exp": time.Now().Add(time.Hour).Unix()}
	p.respond(w, map[string]any{"access_token": "not-used", "token_type": "Bearer", "id_token": oidctest.Sign(p.t, jose.RS256, &jose.JSONWebKey{Key: p.key, KeyID: "1"}, claims)})
}

// window waits for the browser window that shows the provider's page, and returns it.
func (p *provider) window(browser *rod.Browser, console *page) *rod.Page {
	console.t.Helper()
	var found *rod.Page
	console.poll(func() bool {
		pages, err := browser.Pages()
		if err != nil { // a window is just being closed
			return false
		}
		found, err = pages.FindByURL("^" + p.URL + "/authorize")
		return err == nil
	}, func() string { return "the window of the provider is not open" })
	return found
}

// TestOIDC signs in with OpenID Connect on pages that the server itself serves.
func TestOIDC(t *testing.T) {
	browser := newBrowser(t, "ignore-certificate-errors")
	first, second := newProvider(t), newProvider(t)
	file := filepath.Join(t.TempDir(), "authentication.yaml")
	configuration := "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\njwt:" + first.authenticator("oidc:") + second.authenticator("second:")
	if err := os.WriteFile(file, []byte(configuration), 0o600); err != nil {
		t.Fatal(err)
	}
	s := testserver.New(t, testserver.Options{Flags: []string{"--authentication-config=" + file}})
	admin := newAPIUser(t, s.RESTConfig(), "")
	admin.apply(configMapPath("default", "colors"), configMap("colors", "red"))
	admin.apply(rbacAPI+"namespaces/default/rolebindings/dev", `{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: dev},
  subjects: [{kind: Group, name: "oidc:dev", apiGroup: rbac.authorization.k8s.io}, {kind: Group, name: "second:dev", apiGroup: rbac.authorization.k8s.io}], roleRef: {kind: ClusterRole, name: view, apiGroup: rbac.authorization.k8s.io}}`)
	const path = "/console/objects/core/configmaps?namespace=default"
	testserver.Eventually(t, pageTimeout, func() error { // the server reads the discovery documents after its start
		var config struct{ Providers []any }
		if code, body := admin.send(http.MethodGet, "/console/config.json", "", ""); code != http.StatusOK || json.Unmarshal([]byte(body), &config) != nil || len(config.Providers) != 2 {
			return fmt.Errorf("the providers are %d %s", code, body)
		}
		return nil
	})

	open := func(t *testing.T) *page {
		p := openDirect(t, browser, s.URL()+path)
		p.await(first.button(), second.button())
		p.expect("status of 403") // the user cannot list namespaces
		return p
	}
	// decide clicks a link on the provider's page and waits until the provider's window is closed.
	decide := func(p *page, provider *provider, link string) {
		p.t.Helper()
		p.click(provider.button())
		window := provider.window(browser, p)
		element, err := window.Timeout(pageTimeout).ElementR("a", link)
		p.check(err)
		p.check(element.Click("left", 1))
		p.poll(func() bool {
			open, err := browser.Pages() // fails while a window is being closed
			return err == nil && !slices.ContainsFunc(open, func(other *rod.Page) bool { return other.TargetID == window.TargetID })
		}, func() string { return "the window of the provider is open" })
	}

	t.Run("Approve", func(t *testing.T) {
		p := open(t)
		p.screenshot("sign-in")
		decide(p, first, "Approve")
		p.await("colors", "oidc:jane@example.com")
		p.awaitTrue(`location.pathname + location.search === "` + path + `"`)
		p.awaitTrue(`localStorage.length + sessionStorage.length === 0 && document.cookie === ""`)
		p.screenshot("signed-in")
		p.goTo("/console/objects/core/configmaps?namespace=kube-system")
		p.await(`User "oidc:jane@example.com" cannot list resource "configmaps"`)
		p.goTo("/console/permissions?tab=What+can")
		p.await("Roles and bindings cannot be read")
		p.click("Sign out")
		p.await(first.button())
	})

	t.Run("SecondIssuer", func(t *testing.T) {
		p := open(t)
		decide(p, second, "Approve")
		p.await("colors", "second:jane@example.com")
	})

	t.Run("Reject", func(t *testing.T) {
		p := open(t)
		decide(p, first, "Reject")
		p.await("The provider rejected the sign-in: The administrator must approve <b>this</b> application.", first.button())
		p.screenshot("rejected")
		decide(p, first, "Approve") // the next attempt succeeds
		p.await("colors", "oidc:jane@example.com")
	})

	t.Run("TokenEndpointWithoutCORS", func(t *testing.T) {
		first.noCORS.Store(true)
		defer first.noCORS.Store(false)
		p := open(t)
		p.expect("blocked by CORS policy")
		p.expect("net::ERR_FAILED")
		decide(p, first, "Approve")
		p.await(first.tokens.URL+" cannot be reached. The provider must allow requests from this page (CORS).", first.button())
		p.screenshot("no-cors")
	})

	t.Run("RejectedToken", func(t *testing.T) {
		first.foreign.Store(true)
		defer first.foreign.Store(false)
		p := open(t)
		p.expect("status of 401")
		decide(p, first, "Approve")
		p.await("The token was not accepted: Unauthorized", first.button())
	})

	// The console cannot detect that the window was closed. The user can start again.
	t.Run("ClosedWindow", func(t *testing.T) {
		p := open(t)
		p.click(first.button())
		p.check(first.window(browser, p).Close())
		decide(p, first, "Approve")
		p.await("colors", "oidc:jane@example.com")
	})

	// A page with a different state, such as one that an attacker has opened, has no effect.
	t.Run("OtherState", func(t *testing.T) {
		p := open(t)
		p.click(first.button())
		window := first.window(browser, p)
		other := openDirect(t, browser, s.URL()+"/console/callback?code=other&state=other")
		other.expect("Scripts may close only the windows that were opened by them.")
		other.await("You can close this window.")
		other.awaitTrue(`location.search === ""`)
		other.screenshot("callback")
		element, err := window.Timeout(pageTimeout).ElementR("a", "Approve")
		p.check(err)
		_, err = window.Activate()
		p.check(err)
		p.check(element.Click("left", 1))
		_, err = p.Activate()
		p.check(err)
		p.await("colors", "oidc:jane@example.com")
	})
}
