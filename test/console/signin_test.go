package console

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-rod/rod"
	"github.com/go-rod/rod/lib/proto"
	"k8s.io/client-go/rest"

	"mainstay.dev/mainstay/test/testserver"
)

// serviceAccountToken creates a service account in the namespace default, binds cluster roles to it, and
// returns a token of the account.
func (u *apiUser) serviceAccountToken(name string, clusterRoles ...string) string {
	u.t.Helper()
	path := "/api/v1/namespaces/default/serviceaccounts/" + name
	u.apply(path, fmt.Sprintf("{apiVersion: v1, kind: ServiceAccount, metadata: {name: %s}}", name))
	for _, role := range clusterRoles {
		u.apply(rbacAPI+"clusterrolebindings/"+name+"-"+role, fmt.Sprintf(`{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: %s-%s},
  subjects: [{kind: ServiceAccount, name: %s, namespace: default}], roleRef: {kind: ClusterRole, name: %s, apiGroup: rbac.authorization.k8s.io}}`, name, role, name, role))
	}
	var request struct{ Status struct{ Token string } }
	code, body := u.send(http.MethodPost, path+"/token", "application/yaml", "{apiVersion: authentication.k8s.io/v1, kind: TokenRequest}")
	if err := json.Unmarshal([]byte(body), &request); code != http.StatusCreated || err != nil {
		u.t.Fatalf("create a token: %d %s %v", code, body, err)
	}
	return request.Status.Token
}

// caBundle returns the certificate authorities of a client configuration, in PEM.
func caBundle(t testing.TB, config *rest.Config) []byte {
	t.Helper()
	if len(config.CAData) > 0 {
		return config.CAData
	}
	content, err := os.ReadFile(config.CAFile)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// writeKubeconfig writes a kubeconfig that contains a token, and returns its path.
func writeKubeconfig(t testing.TB, s *testserver.Server, token string) string {
	t.Helper()
	content := fmt.Sprintf(`apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: %q, certificate-authority-data: %s}}]
users: [{name: u, user: {token: %q}}]
contexts: [{name: c, context: {cluster: c, user: u}}]
current-context: c
`, s.URL(), base64.StdEncoding.EncodeToString(caBundle(t, s.RESTConfig())), token)
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestSignIn(t *testing.T) {
	browser := newBrowser(t)
	s := testserver.New(t, testserver.Options{})
	admin := newAPIUser(t, s.RESTConfig(), "")
	c := startConsole(t, s.Kubeconfig())
	p := openPage(t, browser, c, "/console/permissions?resource=secrets")
	p.await("Group system:masters")
	p.expect("status of 401")

	t.Run("Reload", func(t *testing.T) {
		p.in(t)
		p.check(p.Reload())
		p.await("One-time code", `Press Enter in the terminal of "mainstay console" to get a new code.`)
		p.screenshot("one-time-code")
		p.fill("One-time code", "wrong")
		p.await("The code is wrong, expired, or was used before.")
		p.screenshot("wrong-code")
		p.fill("One-time code", c.code(t))
		p.await("Permissions", "Group system:masters")
		p.awaitTrue(`location.search === "?resource=secrets" && location.hash === ""`)
	})

	t.Run("SignOut", func(t *testing.T) {
		p.in(t)
		p.signIn("/console/permissions?resource=secrets")
		p.await("Group system:masters")
		p.click("Sign out")
		p.await("One-time code")
		p.awaitMissing("The code is wrong")
		p.fill("One-time code", c.code(t))
		p.await("Group system:masters")
	})

	t.Run("Expired", func(t *testing.T) {
		p.in(t)
		c.endSessions(t)
		p.click("Read again")
		p.await("The session has ended. Sign in again.", "One-time code")
		p.screenshot("expired")
		p.fill("One-time code", c.code(t))
		p.await("Group system:masters")
		p.awaitMissing("The session has ended.")
	})

	t.Run("ServerRestarts", func(t *testing.T) {
		p.in(t)
		admin.apply(configMapPath("default", "before"), configMap("before", "x"))
		p.goTo("/console/objects/core/configmaps?namespace=default")
		p.await("before")
		p.expect("502 (Bad Gateway)")
		p.expect("net::ERR_")
		s.Kill()
		p.await("the server does not respond", "before")
		p.screenshot("server-stopped")
		if err := s.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		p.awaitMissing("does not respond")
		admin.apply(configMapPath("default", "after"), configMap("after", "x"))
		p.await("before", "after")
	})
}

// openDirect opens a page that the server itself serves, without signing in. The browser does not verify the
// server's certificate.
func openDirect(t testing.TB, browser *rod.Browser, url string) *page {
	t.Helper()
	if err := browser.IgnoreCertErrors(true); err != nil {
		t.Fatal(err)
	}
	tab, err := browser.Page(proto.TargetCreateTarget{URL: "about:blank"})
	if err != nil {
		t.Fatal(err)
	}
	p := &page{Page: tab, t: t}
	p.listen()
	p.expect("ERR_CONNECTION_CLOSED") // the server closes the connection after rejecting a token, and the page repeats its request
	t.Cleanup(func() {
		p.mu.Lock()
		for _, problem := range p.problems {
			t.Errorf("the page reports: %s", problem)
		}
		p.mu.Unlock()
		_ = tab.Close()
	})
	p.resize(1280, 800)
	p.check(p.Navigate(url))
	return p
}

func TestDirectSignIn(t *testing.T) {
	browser := newBrowser(t)
	s := testserver.New(t, testserver.Options{})
	admin := newAPIUser(t, s.RESTConfig(), "")
	admin.apply(configMapPath("default", "colors"), configMap("colors", "red"))
	admin.apply(rbacAPI+"clusterroles/config-reader", `{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: config-reader},
  rules: [{verbs: [get, list, watch], apiGroups: [""], resources: [configmaps]}]}`)
	token := admin.serviceAccountToken("reader", "config-reader")

	t.Run("Token", func(t *testing.T) {
		p := openDirect(t, browser, s.URL()+"/console/objects/core/configmaps?namespace=default")
		p.expect("status of 401")
		p.expect("status of 403") // for the list of namespaces
		p.await("Bearer token", "The page has the permissions of the token.")
		p.screenshot("bearer-token")
		p.fill("Bearer token", "wrong")
		p.await("The token was not accepted: Unauthorized")
		p.fill("Bearer token", token)
		p.await("colors", "system:serviceaccount:default:reader")
		p.awaitTrue(`location.pathname === "/console/objects/core/configmaps"`)
		admin.apply(configMapPath("default", "shapes"), configMap("shapes", "round"))
		p.await("shapes")
		p.awaitTrue(`localStorage.length + sessionStorage.length === 0 && document.cookie === ""`)
	})

	// A user who can only read ConfigMaps sees an understandable error on each of the other pages.
	t.Run("Restricted", func(t *testing.T) {
		p := openDirect(t, browser, s.URL()+"/console/objects/core/configmaps/default/colors?tab=YAML")
		p.expect("status of 403")
		p.await("Bearer token")
		p.fill("Bearer token", token)
		p.await("mode: red")
		const user = `User "system:serviceaccount:default:reader" cannot `
		for path, texts := range map[string][]string{
			"":                                    {"Overview", "configmaps", "–", user + `list resource "events"`},
			"objects/core/secrets":                {`secrets is forbidden: ` + user + `list resource "secrets"`},
			"objects/core/pods/a/b":               {`pods "b" is forbidden`},
			"history":                             {user + `list resource "changes"`},
			"permissions":                         {"Roles and bindings cannot be read", user + "list resource"},
			"permissions?tab=What+can":            {"Roles and bindings cannot be read"},
			"admission?tab=Webhooks+and+policies": {user + "list resource"},
			"server":                              {"The charts cannot be read", "The metrics cannot be read: forbidden: " + user + `get path "/metrics"`},
			"controlplanes":                       {user + `list resource "controlplanes"`},
			"map?namespace=default":               {"colors"},
			"missing":                             {"The console has no page missing."},
			"objects/example.com/items":           {"The server has no resource items in the group example.com."},
		} {
			p.goTo("/console/" + path)
			p.await(texts...)
			p.screenshot("restricted-" + strings.NewReplacer("/", "-", "?", "-", "=", "-").Replace(path))
		}
		p.goTo("/console/admission")
		p.click("Run the trace")
		p.await(user + `create resource "pods"`)
	})

	// Another user who signs in after the end of a session does not see unsaved changes.
	t.Run("AnotherUser", func(t *testing.T) {
		p := openDirect(t, browser, s.URL()+"/console/objects/core/configmaps/default/colors?tab=YAML")
		p.expect("status of 401")
		p.expect("status of 403")
		p.await("Bearer token")
		p.fill("Bearer token", admin.serviceAccountToken("editor", "edit"))
		p.click("Edit")
		p.edit("Edit colors", "unsaved: true")
		admin.delete("/api/v1/namespaces/default/serviceaccounts/editor")
		p.click("Review changes")
		p.await("The session has ended. Sign in again.", "unsaved: true")
		p.fill("Bearer token", token)
		p.await("system:serviceaccount:default:reader", "mode: red")
		p.awaitMissing("unsaved: true")
		p.screenshot("another-user")
	})

	// A token of a control plane is not valid in the root control plane, which the server's own pages read.
	t.Run("ControlPlane", func(t *testing.T) {
		config, err := s.ControlPlane(t.Context(), "team", filepath.Join(t.TempDir(), "team.kubeconfig"))
		if err != nil {
			t.Fatal(err)
		}
		p := openDirect(t, browser, s.URL()+"/clusters/team/console/objects/core/namespaces")
		p.expect("status of 401")
		p.await("Bearer token")
		p.fill("Bearer token", config.BearerToken)
		p.await("kube-system", "control plane team")
		p.goTo("/clusters/team/console/server")
		p.await("Control planes share one server.", "The charts cannot be read: Unauthorized", "The metrics cannot be read: Unauthorized")
		p.screenshot("server-of-control-plane")
		p.goTo("/clusters/team/console/objects/core/namespaces")
		p.await("kube-system")
		p.click("Leave the control plane")
		p.await("The session has ended. Sign in again.", "Bearer token")
	})
}
