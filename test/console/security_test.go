package console

import (
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/go-rod/rod/lib/proto"

	"mainstay.dev/mainstay/internal/egress/kubelet/kubelettest"
	"mainstay.dev/mainstay/test/testserver"
)

// These texts are dangerous if a page renders them as HTML or as a link.
const (
	imageMarkup  = `<img src=x onerror="document.title='hacked'">`
	scriptMarkup = `</script><script>document.title='hacked'</script>`
	scriptLink   = `javascript:document.title='hacked'`
)

// checkMarkup checks that the page has not created an element from the text of an object.
func (p *page) checkMarkup(name string) {
	p.t.Helper()
	found, err := p.Eval(`() => {
		const problems = [];
		if (document.title === "hacked") problems.push("the title was changed");
		const visit = (root) => {
			for (const element of root.querySelectorAll("*")) {
				if (element.shadowRoot) visit(element.shadowRoot);
				const { localName, attributes } = element;
				const own = localName === "script" && new URL(element.src || "about:blank", location.href).pathname === "/console/assets/console.js";
				if (["script", "img", "iframe", "object", "embed", "style", "base", "meta"].includes(localName) && !own && element.parentNode !== document.head) problems.push(element.outerHTML);
				for (const { name, value } of attributes) {
					if (name.startsWith("on")) problems.push(element.outerHTML);
					if (["href", "src", "action", "formaction"].includes(name) && new URL(value, location.href).origin !== location.origin) problems.push(element.outerHTML);
				}
			}
		};
		visit(document);
		return problems;
	}`)
	p.check(err)
	for _, problem := range found.Value.Arr() {
		p.t.Errorf("%s: problem on the page: %.300s", name, problem.Str())
	}
}

// dangerous creates objects that contain markup in the fields that the console shows.
func dangerous(t *testing.T, s *testserver.Server) {
	t.Helper()
	config := s.RESTConfig()
	config.UserAgent = imageMarkup
	mallory := newAPIUser(t, config, imageMarkup, "system:masters", scriptMarkup)
	admin := newAPIUser(t, s.RESTConfig(), "")
	testserver.Eventually(t, pageTimeout, func() error { // pods require the service account
		if admin.get("/api/v1/namespaces/default/serviceaccounts/default") == nil {
			return fmt.Errorf("the service account default does not exist")
		}
		return nil
	})
	kubelet := kubelettest.New(t)
	kubelet.Log = func(*http.Request) io.Reader { return strings.NewReader(imageMarkup + "\n" + scriptMarkup + "\n") }
	createPod(admin, "web", kubelet.Port())
	admin.apply("/api/v1/namespaces/default/pods/web/status", fmt.Sprintf(`{apiVersion: v1, kind: Pod, metadata: {name: web}, status: {phase: Running, reason: %q, message: %q,
  conditions: [{type: Ready, status: "False", reason: %q, message: %q}]}}`, imageMarkup, scriptMarkup, imageMarkup, scriptMarkup))

	annotations := fmt.Sprintf("{image: %q, script: %q, link: %q}", imageMarkup, scriptMarkup, scriptLink)
	body := fmt.Sprintf(`{apiVersion: v1, kind: ConfigMap, metadata: {name: colors, annotations: %s}, data: {image: %q, script: %q}}`, annotations, imageMarkup, scriptMarkup)
	if code, response := mallory.send(http.MethodPost, "/api/v1/namespaces/default/configmaps?fieldManager="+url.QueryEscape(imageMarkup), "application/yaml", body); code != http.StatusCreated {
		t.Fatalf("create a ConfigMap: %d %s", code, response)
	}
	pod := admin.get("/api/v1/namespaces/default/pods/web")
	admin.apply("/api/v1/namespaces/default/events/web.1", fmt.Sprintf(`{apiVersion: v1, kind: Event, metadata: {name: web.1, namespace: default}, type: Warning, reason: %q, message: %q,
  involvedObject: {apiVersion: v1, kind: Pod, name: web, namespace: default, uid: %s}}`, imageMarkup, scriptMarkup, pod.Metadata.UID))

	admin.apply("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/notes.example.com", fmt.Sprintf(`
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: notes.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: notes, kind: Note}
  versions:
  - name: v1
    served: true
    storage: true
    additionalPrinterColumns: [{name: %[1]q, description: %[2]q, type: string, jsonPath: .spec.text}]
    schema:
      openAPIV3Schema:
        type: object
        description: %[1]q
        properties: {spec: {type: object, description: %[1]q, properties: {text: {type: string, description: %[2]q, enum: [%[1]q, a]}}}}
`, imageMarkup, scriptMarkup))
	note := fmt.Sprintf(`{apiVersion: example.com/v1, kind: Note, metadata: {name: first, namespace: default}, spec: {text: %q}}`, imageMarkup)
	testserver.Eventually(t, pageTimeout, func() error {
		if code, response := admin.send(http.MethodPost, "/apis/example.com/v1/namespaces/default/notes", "application/yaml", note); code != http.StatusCreated {
			return fmt.Errorf("create a custom resource: %d %s", code, response)
		}
		return nil
	})

	for _, name := range []string{imageMarkup, scriptLink} {
		admin.apply(rbacAPI+"clusterroles/"+url.PathEscape(name), fmt.Sprintf(`{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: %q},
  rules: [{verbs: [get, list], apiGroups: [""], resources: [secrets], resourceNames: [%q]}]}`, name, scriptMarkup))
		admin.apply(rbacAPI+"clusterrolebindings/"+url.PathEscape(name), fmt.Sprintf(`{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: %[1]q},
  roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: %[1]q},
  subjects: [{kind: User, name: %[2]q, apiGroup: rbac.authorization.k8s.io}, {kind: Group, name: %[3]q, apiGroup: rbac.authorization.k8s.io}]}`, name, imageMarkup, scriptMarkup))
	}
	for _, action := range []string{"Warn", "Deny"} {
		name := strings.ToLower(action)
		admin.apply(admissionAPI+"validatingadmissionpolicies/"+name, fmt.Sprintf(`{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicy, metadata: {name: %s},
  spec: {matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [limitranges]}]},
  validations: [{expression: "object.metadata.name != \"<img src=y>\" && false", message: %q}]}}`, name, imageMarkup+action))
		admin.apply(admissionAPI+"validatingadmissionpolicybindings/"+name, fmt.Sprintf(`{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicyBinding, metadata: {name: %[1]s},
  spec: {policyName: %[1]s, validationActions: [%[2]s]}}`, name, action))
	}
	testserver.Eventually(t, pageTimeout, func() error {
		code, response := admin.send(http.MethodPost, "/api/v1/namespaces/default/limitranges?dryRun=All", "application/yaml", "{apiVersion: v1, kind: LimitRange, metadata: {name: a}, spec: {limits: []}}")
		if code != http.StatusUnprocessableEntity {
			return fmt.Errorf("the policy has no effect: %d %s", code, response)
		}
		return nil
	})
}

// TestMarkup checks that texts from objects, responses and the URL are not interpreted as markup.
func TestMarkup(t *testing.T) {
	browser := newBrowser(t)
	s := testserver.New(t, testserver.Options{})
	dangerous(t, s)
	p := openPage(t, browser, startConsole(t, s.Kubeconfig()), "/console/")
	p.expect("the server responded with a status of")

	configMap := "/console/objects/core/configmaps/default/colors"
	pod := "/console/objects/core/pods/default/web"
	role := "/console/objects/rbac.authorization.k8s.io/clusterroles/-/" + url.PathEscape(imageMarkup)
	query := url.QueryEscape(imageMarkup)
	for _, tt := range []struct {
		name, path string
		texts      []string
		actions    func()
	}{
		{"Overview", "/console/", []string{imageMarkup, scriptMarkup, imageMarkup + " (by kubernetes-admin)"}, nil},
		{"List", "/console/objects/core/pods?wide=1", []string{"web", imageMarkup}, nil},
		{"CustomResources", "/console/objects/example.com/notes", []string{"first", imageMarkup}, nil},
		{"Filters", "/console/objects/core/configmaps?filter=" + query + "&sort=" + query, []string{"No object matches the filters."}, nil},
		{"Selector", "/console/objects/core/configmaps?labels=" + query, []string{"Try again"}, nil},
		{"Namespace", "/console/objects/core/configmaps?namespace=" + query, []string{imageMarkup}, nil},
		{"ClusterRoles", "/console/objects/rbac.authorization.k8s.io/clusterroles", []string{imageMarkup, scriptLink}, nil},
		{"ClusterRole", role, []string{imageMarkup, "UID"}, nil},
		{"ScriptLink", "/console/objects/rbac.authorization.k8s.io/clusterrolebindings", []string{scriptLink}, func() { p.click(scriptLink); p.await("UID", scriptLink) }},
		{"References", strings.Replace(role, "clusterroles", "clusterrolebindings", 1) + "?tab=Relations", []string{imageMarkup, "ClusterRole"}, nil},
		{"Annotations", configMap, []string{"image=" + imageMarkup, "link=" + scriptLink}, nil},
		{"Conditions", pod, []string{imageMarkup, scriptMarkup}, nil},
		{"YAML", configMap + "?tab=YAML", []string{imageMarkup, scriptMarkup, "annotations"}, func() {
			_, err := p.Eval(`() => document.querySelector(".editor").shadowRoot.querySelector(".cm-line").dispatchEvent(new MouseEvent("mousemove", { bubbles: true, composed: true }))`)
			p.check(err)
		}},
		{"Events", pod + "?tab=Events", []string{imageMarkup, scriptMarkup}, nil},
		{"Relations", pod + "?tab=Relations", []string{"neither owners nor dependents"}, nil},
		{"ObjectHistory", configMap + "?tab=History", []string{imageMarkup, "Created"}, nil},
		{"Managers", configMap + "?tab=Managers", []string{imageMarkup}, nil},
		{"Logs", pod + "?tab=Logs", []string{imageMarkup, scriptMarkup}, nil},
		{"Terminal", pod + "?tab=Terminal", []string{"Run"}, func() {
			p.withoutTTY()
			p.fill("Command", "echo "+strconv.Quote(imageMarkup))
			p.await(imageMarkup)
		}},
		{"Create", "/console/objects/example.com/notes", []string{"first"}, func() {
			p.click("Create")
			p.edit("The new object", fmt.Sprintf("apiVersion: example.com/v1\nkind: Note\nmetadata: {name: %q, namespace: default}\n", imageMarkup))
			p.clickInDialog("Create")
			p.await(`metadata.name: Invalid value: "<img`)
		}},
		{"Completion", "/console/objects/example.com/notes", []string{"first"}, func() {
			p.click("Create")
			p.edit("The new object", "apiVersion: example.com/v1\nkind: Note\nmetadata: {name: x}\nspec:\n  te")
			p.await(scriptMarkup) // the description of the field
			p.screenshot("completion")
		}},
		{"Map", "/console/map?namespace=default", []string{"colors"}, nil},
		{"MapOfNamespace", "/console/map?namespace=" + query + "&kinds=" + query, []string{imageMarkup}, nil},
		{"History", "/console/history?namespace=default&resource=configmaps", []string{imageMarkup + " (by kubernetes-admin)"}, func() {
			p.click("Created")
			p.await(imageMarkup+" (by", "field manager "+imageMarkup+", "+imageMarkup, "annotations")
		}},
		{"HistoryFilters", "/console/history?user=" + query + "&since=" + query, []string{"Try again"}, nil},
		{"WhoCan", "/console/permissions?resource=secrets&name=" + url.QueryEscape(scriptMarkup), []string{"User " + imageMarkup, "Group " + scriptMarkup}, func() {
			p.clickXPath(`(//button[@aria-expanded])[1]`)
			p.await("Reason:")
		}},
		{"WhatCan", "/console/permissions?tab=What+can&subject=" + query + "&groups=" + query, []string{"Groups: system:authenticated, " + imageMarkup}, nil},
		{"Simulation", "/console/permissions?simRole=ClusterRole/" + query + "&simSubject=" + url.QueryEscape("group:"+imageMarkup) + "&resource=secrets&name=" + url.QueryEscape(scriptMarkup), []string{"Group " + imageMarkup}, nil},
		{"WhyDenied", "/console/permissions?tab=Why+denied", []string{"Message of the response"}, func() {
			p.fill("Message of the response", `secrets is forbidden: User "`+strings.ReplaceAll(imageMarkup, `"`, "")+`" cannot delete resource "secrets" in API group ""`)
			p.await("The server's decision now: denied", "<img src=x")
		}},
		{"Admission", "/console/admission", []string{"Run the trace"}, func() {
			p.edit("Object", "apiVersion: v1\nkind: LimitRange\nmetadata: {name: a, namespace: default}\nspec: {limits: []}\n")
			p.click("Run the trace")
			p.await("The server would reject the object", imageMarkup+"Warn", imageMarkup+"Deny", "<img src=y>")
			p.edit("Object", "apiVersion: v1\nkind: "+imageMarkup+"\n")
			p.click("Run the trace")
			p.await("The server has no kind " + imageMarkup)
		}},
		{"Policies", "/console/admission?tab=Webhooks+and+policies", []string{"warn", "deny"}, nil},
		{"Server", "/console/server", []string{"Health checks"}, nil},
		{"ControlPlanes", "/console/controlplanes", []string{"Control planes"}, func() {
			p.click("Create or fork")
			p.awaitTrue(`document.querySelector("dialog[open]") !== null`)
		}},
		{"MissingPage", "/console/" + url.PathEscape(imageMarkup), []string{"The console has no page " + imageMarkup}, nil},
		{"MissingResource", "/console/objects/" + url.PathEscape(imageMarkup) + "/" + url.PathEscape(scriptMarkup), []string{imageMarkup, scriptMarkup}, nil},
		{"MissingObject", "/console/objects/core/configmaps/default/" + url.PathEscape(imageMarkup), []string{imageMarkup, "not found"}, nil},
		{"MissingMoment", "/at/" + url.PathEscape(imageMarkup) + "/console/", []string{imageMarkup}, nil},
		{"MissingControlPlane", "/clusters/" + url.PathEscape(imageMarkup) + "/console/", []string{"control plane %3Cimg"}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p.in(t)
			p.goTo("/console/missing") // closes dialogs
			p.await("The console has no page missing.")
			p.goTo(tt.path)
			p.await(tt.texts...)
			if tt.actions != nil {
				tt.actions()
			}
			p.checkMarkup(tt.name)
		})
	}
}

// TestPolicy checks the effect of the Content-Security-Policy in a browser.
func TestPolicy(t *testing.T) {
	browser := newBrowser(t)
	s := testserver.New(t, testserver.Options{})
	c := startConsole(t, s.Kubeconfig())
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Access-Control-Allow-Origin", "*")
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(w, `<!doctype html><title>Other</title><iframe src=%q></iframe>`, r.URL.Query().Get("frame"))
	}))
	t.Cleanup(other.Close)

	t.Run("Scripts", func(t *testing.T) {
		p := openPage(t, browser, c, "/console/")
		for _, expected := range []string{"Content Security Policy", "TrustedHTML", "TrustedScript"} {
			p.expect(expected)
		}
		found, err := p.Eval(`async (other) => {
			const results = [];
			const attempt = async (name, action) => {
				let result = "ran";
				try {
					await action();
				} catch (error) {
					result = error.name;
				}
				results.push(name + ": " + result);
			};
			const later = (action) => new Promise((resolve, reject) => setTimeout(() => { // without the privileges of the protocol
				try {
					resolve(action());
				} catch (error) {
					reject(error);
				}
			}));
			const loaded = (element, url) => new Promise((resolve, reject) => {
				element.onload = resolve;
				element.onerror = () => reject(new Error(url));
				if (url) element.src = url;
				document.body.append(element);
			});
			await attempt("eval", () => later(() => eval("window.hacked = 'eval'")));
			await attempt("function", () => later(() => new Function("window.hacked = 'function'")()));
			await attempt("inline script", () => { const script = document.createElement("script"); script.textContent = "window.hacked = 'inline'"; document.body.append(script); });
			await attempt("script of a text node", () => { const script = document.createElement("script"); script.append("window.hacked = 'text'"); document.body.append(script); if (!window.hacked) throw new Error("blocked"); });
			await attempt("innerHTML", () => { document.createElement("div").innerHTML = "<img src=x onerror=\"window.hacked = 'html'\">"; });
			await attempt("document.write", () => document.write("<p>text</p>"));
			await attempt("image", () => loaded(document.createElement("img"), other));
			await attempt("frame", () => loaded(document.createElement("iframe"), other + "?frame").then(() => { throw new Error("see the policy"); }));
			await attempt("request", () => fetch(other));
			await attempt("socket", () => new Promise((resolve, reject) => { const socket = new WebSocket(other.replace("http", "ws")); socket.onopen = resolve; socket.onerror = () => reject(new Error("blocked")); }));
			results.push("effect: " + window.hacked);
			return results;
		}`, other.URL)
		p.check(err)
		var results []string
		for _, result := range found.Value.Arr() {
			results = append(results, result.Str())
		}
		want := []string{
			"eval: EvalError", "function: EvalError", "inline script: TypeError", "script of a text node: Error", "innerHTML: TypeError", "document.write: TypeError",
			"image: Error", "frame: Error", "request: TypeError", "socket: Error", "effect: undefined",
		}
		if !slices.Equal(results, want) {
			t.Errorf("the results are %q, want %q", results, want)
		}
	})

	t.Run("Frames", func(t *testing.T) {
		for name, address := range map[string]string{"local": c.address, "server": s.URL()} {
			for _, path := range []string{"/console/", "/console/callback", "/clusters/a/console/history"} {
				p := openDirect(t, browser, other.URL+"?frame="+url.QueryEscape(address+path))
				p.poll(func() bool {
					p.mu.Lock()
					defer p.mu.Unlock()
					return slices.ContainsFunc(p.problems, func(problem string) bool { return strings.Contains(problem, "frame-ancestors") })
				}, func() string { return fmt.Sprintf("%s: %s can be embedded: %q", name, path, p.problems) })
				p.mu.Lock()
				p.problems = nil
				p.mu.Unlock()
				p.expect("frame")
			}
		}
	})
}

// traffic records the requests of a page.
type traffic struct {
	mu     sync.Mutex
	tokens map[string]bool // values of the header Authorization
	urls   []string
}

func (p *page) record() *traffic {
	r := &traffic{tokens: map[string]bool{}}
	p.EnableDomain(proto.NetworkEnable{})
	go p.EachEvent(func(e *proto.NetworkRequestWillBeSent) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.urls = append(r.urls, e.Request.URL)
		if value, ok := e.Request.Headers["Authorization"]; ok {
			r.tokens[strings.TrimPrefix(value.Str(), "Bearer ")] = true
		}
	})()
	return r
}

// tour visits the pages of the console.
func (p *page) tour() {
	p.t.Helper()
	for _, visit := range []struct{ path, text string }{
		{"/console/objects/core/configmaps?namespace=default", "colors"}, {"/console/objects/core/configmaps/default/colors?tab=YAML", "mode: red"},
		{"/console/objects/core/configmaps/default/colors?tab=History", "Created"}, {"/console/map?namespace=default", "colors"}, {"/console/history", "colors"},
		{"/console/permissions", "Permissions"}, {"/console/admission", "Run the trace"}, {"/console/server", "Health checks"}, {"/console/controlplanes", "Control planes"},
	} {
		p.goTo(visit.path)
		p.await(visit.text)
	}
}

// checkSecrets checks that the browser has not stored any of the secrets.
func (p *page) checkSecrets(secrets ...string) {
	p.t.Helper()
	stored, err := p.Eval(`async () => {
		const texts = [location.href, document.cookie, JSON.stringify(history.state), JSON.stringify({ ...localStorage }), JSON.stringify({ ...sessionStorage }), window.name, document.title];
		const visit = (root) => {
			texts.push(root.innerHTML);
			for (const element of root.querySelectorAll("*")) {
				if (element.shadowRoot) visit(element.shadowRoot);
				if ("value" in element) texts.push(String(element.value));
			}
		};
		visit(document.documentElement);
		const databases = (await indexedDB.databases()).map(({ name }) => name);
		// Caches and service workers exist only in secure contexts.
		const caches = await (globalThis.caches?.keys() ?? []);
		const workers = await (navigator.serviceWorker?.getRegistrations() ?? []);
		if (localStorage.length + sessionStorage.length + databases.length + caches.length + workers.length + document.cookie.length > 0) texts.push("STORED");
		return texts;
	}`)
	p.check(err)
	var texts []string
	for _, text := range stored.Value.Arr() {
		texts = append(texts, text.Str())
	}
	history, err := proto.PageGetNavigationHistory{}.Call(p)
	p.check(err)
	for _, entry := range history.Entries {
		texts = append(texts, entry.URL, entry.UserTypedURL, entry.Title)
	}
	cookies, err := proto.StorageGetCookies{}.Call(p.Browser())
	p.check(err)
	if len(cookies.Cookies) > 0 {
		p.t.Errorf("the browser has the cookies %v", cookies.Cookies)
	}
	if slices.Contains(texts, "STORED") {
		p.t.Errorf("the page has stored data: %q", texts[:7])
	}
	for _, secret := range secrets {
		encoded := base64.RawURLEncoding.EncodeToString([]byte(secret))
		for _, text := range texts {
			if secret != "" && (strings.Contains(text, secret) || strings.Contains(text, encoded)) {
				p.t.Errorf("the browser has stored the secret %.8s… in %.200s", secret, text)
			}
		}
	}
}

// TestSecrets checks that tokens, codes and sessions exist only in the memory of the page.
func TestSecrets(t *testing.T) {
	browser := newBrowser(t)
	s := testserver.New(t, testserver.Options{})
	admin := newAPIUser(t, s.RESTConfig(), "")
	admin.apply(configMapPath("default", "colors"), configMap("colors", "red"))
	token := admin.serviceAccountToken("operator", "cluster-admin")
	audit := func(t *testing.T, r *traffic, secrets ...string) {
		t.Helper()
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, secret := range secrets {
			for _, address := range r.urls {
				if strings.Contains(strings.TrimSuffix(address, "#code="+secret), secret) {
					t.Errorf("the URL %s contains a secret", address)
				}
			}
			if strings.Contains(s.Logs(), secret) {
				t.Errorf("the log of the server contains the secret %.8s…", secret)
			}
		}
	}

	t.Run("Direct", func(t *testing.T) {
		p := openDirect(t, browser, s.URL()+"/console/")
		r := p.record()
		p.await("Bearer token")
		p.fill("Bearer token", token)
		p.await("Overview")
		p.tour()
		p.checkSecrets(token)
		audit(t, r, token)
		p.click("Sign out")
		p.await("Bearer token")
		p.checkSecrets(token)
	})

	t.Run("Local", func(t *testing.T) {
		c := startConsole(t, writeKubeconfig(t, s, token))
		p := openPage(t, browser, c, "/console/missing")
		r := p.record()
		code := c.code(t)
		p.check(p.Navigate("about:blank"))
		p.check(p.Navigate(c.address + "/console/#code=" + code))
		p.await("Overview")
		p.tour()
		r.mu.Lock()
		secrets := []string{code, token}
		for session := range r.tokens {
			if session == token {
				t.Error("the page has received the token of the kubeconfig")
			}
			secrets = append(secrets, session)
		}
		r.mu.Unlock()
		if len(secrets) != 3 {
			t.Fatalf("the page has used %d sessions", len(secrets)-2)
		}
		p.checkSecrets(secrets...)
		audit(t, r, secrets...)
	})
}

// TestOneNamespace checks the pages of a user who can read only one namespace.
func TestOneNamespace(t *testing.T) {
	browser := newBrowser(t)
	s := testserver.New(t, testserver.Options{})
	admin := newAPIUser(t, s.RESTConfig(), "")
	for _, name := range []string{"mine", "theirs"} {
		admin.apply("/api/v1/namespaces/"+name, namespace(name))
		admin.apply(configMapPath(name, "colors"), configMap("colors", name))
	}
	token := admin.serviceAccountToken("reader")
	admin.apply(rbacAPI+"namespaces/mine/rolebindings/reader", `{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: reader},
  subjects: [{kind: ServiceAccount, name: reader, namespace: default}], roleRef: {kind: ClusterRole, name: view, apiGroup: rbac.authorization.k8s.io}}`)
	admin.apply(configMapPath("theirs", "shared"), configMap("shared", "common"))
	admin.apply(rbacAPI+"namespaces/theirs/roles/getter", `{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: getter},
  rules: [{verbs: [get], apiGroups: [""], resources: [configmaps], resourceNames: [shared]}]}`)
	admin.apply(rbacAPI+"namespaces/theirs/rolebindings/getter", `{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: getter},
  subjects: [{kind: ServiceAccount, name: reader, namespace: default}], roleRef: {kind: Role, name: getter, apiGroup: rbac.authorization.k8s.io}}`)
	p := openPage(t, browser, startConsole(t, writeKubeconfig(t, s, token)), "/console/objects/core/configmaps?namespace=mine")
	p.expect("403 (Forbidden)")
	const user = `User "system:serviceaccount:default:reader" cannot `

	t.Run("Read", func(t *testing.T) {
		p.in(t)
		p.await("colors", "system:serviceaccount:default:reader")
		p.screenshot("list")
		admin.apply(configMapPath("mine", "shapes"), configMap("shapes", "round"))
		p.await("shapes")
		for path, texts := range map[string][]string{
			"objects/core/configmaps":                                {user + `list resource "configmaps" in API group "" at the cluster scope`},
			"objects/core/configmaps?namespace=theirs":               {user + `list resource "configmaps" in API group "" in the namespace "theirs"`},
			"objects/core/configmaps/theirs/colors":                  {user + `get resource "configmaps"`},
			"objects/core/secrets?namespace=mine":                    {user + `list resource "secrets" in API group "" in the namespace "mine"`},
			"objects/core/configmaps/mine/colors?tab=YAML":           {"mode: mine"},
			"objects/core/configmaps/mine/colors?tab=Events":         {"There are no events about this object."},
			"objects/core/configmaps/mine/colors?tab=Relations":      {"neither owners nor dependents", "You cannot list these resources"},
			"objects/core/configmaps/mine/colors?tab=History":        {user + `list resource "changes"`},
			"map?namespace=mine":                                     {"colors", "You cannot list these resources", "secrets"},
			"map?namespace=theirs":                                   {"You cannot list these resources", "configmaps"},
			"history?namespace=mine":                                 {user + `list resource "changes"`},
			"controlplanes":                                          {user + `list resource "controlplanes"`},
			"":                                                       {"Overview", "–", user + `list resource "events"`},
			"permissions?tab=Why+denied":                             {"Roles and bindings cannot be read", user},
			"objects/apiextensions.k8s.io/customresourcedefinitions": {user + `list resource "customresourcedefinitions"`},
		} {
			p.goTo("/console/" + path)
			p.await(texts...)
		}
	})

	t.Run("GetOnly", func(t *testing.T) {
		p.in(t)
		p.goTo("/console/objects/core/configmaps/theirs/shared?tab=YAML")
		p.await("mode: common", user+`watch resource "configmaps"`)
		p.awaitMissing("The object was deleted.")
	})

	t.Run("Write", func(t *testing.T) {
		p.in(t)
		before := admin.get(configMapPath("mine", "colors"))
		p.goTo("/console/objects/core/configmaps?namespace=mine")
		p.click("Create")
		p.edit("The new object", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: new, namespace: mine}\n")
		p.clickInDialog("Create")
		p.await(user + `create resource "configmaps"`)
		p.screenshot("create")
		p.click("Close")
		p.goTo("/console/objects/core/configmaps/mine/colors?tab=YAML")
		p.click("Edit")
		p.edit("Edit colors", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: colors, namespace: mine}\ndata: {mode: hacked}\n")
		p.click("Review changes")
		p.await(user + `update resource "configmaps"`)
		p.screenshot("edit")
		p.click("Cancel")
		p.click("Delete")
		p.await("No other object is deleted.")
		p.clickInDialog("Delete")
		p.await(user + `delete resource "configmaps"`)
		p.screenshot("delete")
		if after := admin.get(configMapPath("mine", "colors")); after == nil || after.Metadata.ResourceVersion != before.Metadata.ResourceVersion {
			t.Error("the object was changed")
		}
		if admin.get(configMapPath("mine", "new")) != nil {
			t.Error("an object was created")
		}
	})
}
