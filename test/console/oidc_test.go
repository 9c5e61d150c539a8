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

// provider is a provider of OpenID Connect for clients without a secret. Its page has the links Approve and Reject.
type provider struct {
	*httptest.Server
	t         *testing.T
	key       *rsa.PrivateKey
	request   atomic.Pointer[url.Values] // the parameters of the last authorization request
	noCORS    atomic.Pointer[string]     // the path of the endpoint without CORS headers
	otherHost atomic.Bool                // has the token endpoint at another host
	foreign   atomic.Bool                // issues ID tokens for another client
}

func newProvider(t *testing.T) *provider {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	p := &provider{t: t, key: key}
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+discoveryPath, func(w http.ResponseWriter, r *http.Request) {
		p.allowOrigin(w, r)
		token := p.URL + "/token"
		if p.otherHost.Load() {
			token = "https://token.example.com/token"
		}
		p.respond(w, map[string]any{
			"issuer": p.URL, "authorization_endpoint": p.URL + "/authorize?tenant=a", "token_endpoint": token, "jwks_uri": p.URL + "/keys",
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
	mux.HandleFunc("POST /token", p.token)
	p.Server = httptest.NewTLSServer(mux)
	t.Cleanup(p.Close)
	return p
}

// allowOrigin allows pages of other origins to read the response.
func (p *provider) allowOrigin(w http.ResponseWriter, r *http.Request) {
	if path := p.noCORS.Load(); path == nil || *path != r.URL.Path {
		w.Header().Set("Access-Control-Allow-Origin", "*")
	}
}

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

// redirect redirects the browser to the console.
func (p *provider) redirect(w http.ResponseWriter, r *http.Request, parameters url.Values) {
	request := *p.request.Load()
	parameters.Set("state", request.Get("state"))
	http.Redirect(w, r, request.Get("redirect_uri")+"?"+parameters.Encode(), http.StatusFound)
}

func (p *provider) token(w http.ResponseWriter, r *http.Request) {
	p.allowOrigin(w, r)
	request := *p.request.Load()
	challenge := sha256.Sum256([]byte(r.PostFormValue("code_verifier")))
	switch {
	case r.PostFormValue("grant_type") != "authorization_code", r.PostFormValue("code") != oidcCode, r.PostFormValue("client_id") != oidcClient,
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

// window returns the window of the provider.
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

// TestOIDC signs in with OpenID Connect at the URL of the server.
func TestOIDC(t *testing.T) {
	browser := newBrowser(t, "ignore-certificate-errors")
	provider := newProvider(t)
	authority := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(authority, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: provider.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	s := testserver.New(t, testserver.Options{Flags: []string{
		"--oidc-issuer-url=" + provider.URL, "--oidc-client-id=" + oidcClient, "--oidc-ca-file=" + authority,
		"--oidc-username-claim=email", "--oidc-username-prefix=oidc:", "--oidc-groups-claim=groups", "--oidc-groups-prefix=oidc:",
	}})
	admin := newAPIUser(t, s.RESTConfig(), "")
	admin.apply(configMapPath("default", "colors"), configMap("colors", "red"))
	admin.apply(rbacAPI+"namespaces/default/rolebindings/dev", `{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: dev},
  subjects: [{kind: Group, name: "oidc:dev", apiGroup: rbac.authorization.k8s.io}], roleRef: {kind: ClusterRole, name: view, apiGroup: rbac.authorization.k8s.io}}`)
	const path = "/console/objects/core/configmaps?namespace=default"
	button := "Sign in with " + strings.TrimPrefix(provider.URL, "https://")

	open := func(t *testing.T) *page {
		p := openDirect(t, browser, s.URL()+path)
		p.await(button)
		p.expect("status of 403") // the user cannot list namespaces
		return p
	}
	// decide clicks on a link of the provider's page, and waits until its window is closed.
	decide := func(p *page, link string) {
		p.t.Helper()
		p.click(button)
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
		decide(p, "Approve")
		p.await("colors", "oidc:jane@example.com")
		p.awaitTrue(`location.pathname + location.search === "` + path + `"`)
		p.awaitTrue(`localStorage.length + sessionStorage.length === 0 && document.cookie === ""`)
		p.screenshot("signed-in")
		p.goTo("/console/objects/core/configmaps?namespace=kube-system")
		p.await(`User "oidc:jane@example.com" cannot list resource "configmaps"`)
		p.goTo("/console/permissions?tab=What+can")
		p.await("Roles and bindings cannot be read")
		p.click("Sign out")
		p.await(button)
	})

	t.Run("Reject", func(t *testing.T) {
		p := open(t)
		decide(p, "Reject")
		p.await("The provider rejected the sign-in: The administrator must approve <b>this</b> application.", button)
		p.screenshot("rejected")
		decide(p, "Approve") // the next attempt succeeds
		p.await("colors", "oidc:jane@example.com")
	})

	t.Run("TokenEndpointWithoutCORS", func(t *testing.T) {
		provider.noCORS.Store(new("/token"))
		defer provider.noCORS.Store(nil)
		p := open(t)
		p.expect("blocked by CORS policy")
		p.expect("net::ERR_FAILED")
		decide(p, "Approve")
		p.await(provider.URL+" cannot be reached. The provider must allow requests from this page (CORS).", button)
		p.screenshot("no-cors")
	})

	// Without an address for the second window, it is closed.
	t.Run("Discovery", func(t *testing.T) {
		p := open(t)
		p.expect("blocked by CORS policy")
		p.expect("net::ERR_FAILED")
		windows := func() int { // -1 if a window is just being closed
			pages, err := browser.Pages()
			if err != nil {
				return -1
			}
			return len(pages)
		}
		before := -1
		p.poll(func() bool { before = windows(); return before > 0 }, func() string { return "the windows cannot be listed" })
		provider.noCORS.Store(new(discoveryPath))
		defer provider.noCORS.Store(nil)
		p.click(button)
		p.await(provider.URL + " cannot be reached. The provider must allow requests from this page (CORS).")
		p.poll(func() bool { return windows() == before }, func() string { return "the second window is open" })
		provider.noCORS.Store(nil)
		provider.otherHost.Store(true)
		defer provider.otherHost.Store(false)
		p.click(button)
		p.await("The token endpoint of the provider is at https://token.example.com.")
		p.poll(func() bool { return windows() == before }, func() string { return "the second window is open" })
	})

	t.Run("RejectedToken", func(t *testing.T) {
		provider.foreign.Store(true)
		defer provider.foreign.Store(false)
		p := open(t)
		p.expect("status of 401")
		decide(p, "Approve")
		p.await("The token was not accepted: Unauthorized", button)
	})

	// A closed window cannot be detected. The user can start again.
	t.Run("ClosedWindow", func(t *testing.T) {
		p := open(t)
		p.click(button)
		p.check(provider.window(browser, p).Close())
		decide(p, "Approve")
		p.await("colors", "oidc:jane@example.com")
	})

	// A page with another state, such as one that an attacker has opened, has no effect.
	t.Run("OtherState", func(t *testing.T) {
		p := open(t)
		p.click(button)
		window := provider.window(browser, p)
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
