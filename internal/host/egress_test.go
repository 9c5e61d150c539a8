package host

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"mainstay.dev/mainstay/internal/controlplane"
	"mainstay.dev/mainstay/internal/egress/selector/selectortest"
	"mainstay.dev/mainstay/internal/filters/audit"
	"mainstay.dev/mainstay/internal/storage/kv/etcdtest"
	"mainstay.dev/mainstay/test/testserver"
)

// egressConfig starts the proxies, and writes an egress configuration that maps each network to its proxy.
func egressConfig(t *testing.T, proxies map[string]*selectortest.Proxy) string {
	t.Helper()
	text := "apiVersion: apiserver.k8s.io/v1beta1\nkind: EgressSelectorConfiguration\negressSelections:\n"
	for network, proxy := range proxies {
		at := httptest.NewServer(proxy)
		t.Cleanup(at.Close)
		text += fmt.Sprintf("- {name: %s, connection: {proxyProtocol: HTTPConnect, transport: {tcp: {url: '%s'}}}}\n", network, at.URL)
	}
	return writeFile(t, "egress.yaml", text)
}

// kubeconfigOf writes a kubeconfig for a server with the given URL.
func kubeconfigOf(t *testing.T, url string) string {
	t.Helper()
	return writeFile(t, "kubeconfig", `
current-context: w
contexts: [{name: w, context: {cluster: w, user: w}}]
clusters: [{name: w, cluster: {server: "`+url+`", insecure-skip-tls-verify: true}}]
users: [{name: w, user: {}}]
`)
}

// awaitDial waits until a proxy receives a request to connect to an address.
func awaitDial(t *testing.T, proxy *selectortest.Proxy, address string) {
	t.Helper()
	testserver.Eventually(t, 30*time.Second, func() error {
		if !slices.Contains(proxy.Addresses(), address) {
			return fmt.Errorf("the proxy received no request for %s, only for %v", address, proxy.Addresses())
		}
		return nil
	})
}

// idToken returns an ID token of an issuer with an invalid signature.
func idToken(issuer string) string {
	part := base64.RawURLEncoding.EncodeToString
	claims := fmt.Sprintf(`{"iss":%q,"aud":"kube","sub":"x","exp":%d}`, issuer, time.Now().Add(time.Hour).Unix())
	return part([]byte(`{"alg":"RS256","kid":"k"}`)) + "." + part([]byte(claims)) + "." + part([]byte("signature"))
}

// TestEgress checks that each connection to another server uses the proxy of its network, and no other proxy.
func TestEgress(t *testing.T) {
	t.Parallel()
	everything := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(everything.Close)
	there := func(string) string { return everything.Listener.Addr().String() }
	toControlPlane, toCluster := &selectortest.Proxy{Redirect: there}, &selectortest.Proxy{Redirect: there}
	recorded := audit.NewOptions()
	recorded.PolicyFile = writeFile(t, "policy", "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata}]\n")
	recorded.Webhook.ConfigFile = kubeconfigOf(t, "https://audit.invalid:8443")
	recorded.Webhook.Batch.MaxWait, recorded.Webhook.InitialBackoff = time.Millisecond, time.Millisecond
	issuer := func(network string) string {
		return fmt.Sprintf("- {issuer: {url: 'https://%[1]s.invalid', audiences: [kube], egressSelectorType: %[1]s}, claimMappings: {username: {claim: sub, prefix: ''}}}\n", network)
	}
	s := start(t, Config{
		ControlPlane: controlplane.Options{Authorization: controlplane.AuthorizationOptions{Modes: []string{"RBAC", "Webhook"}}, Audit: recorded},
		Egress:       EgressConfig{SelectorConfigFile: egressConfig(t, map[string]*selectortest.Proxy{"controlplane": toControlPlane, "cluster": toCluster})},
		Authentication: AuthenticationConfig{
			JWT:          JWTConfig{ConfigFile: writeFile(t, "authentication", "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\njwt:\n"+issuer("controlplane")+issuer("cluster"))},
			TokenFile:    TokenFileConfig{File: tokens(t)},
			TokenWebhook: TokenWebhookConfig{ConfigFile: kubeconfigOf(t, "https://authn.invalid:8443")},
		},
		Authorization: AuthorizationConfig{WebhookConfigFile: kubeconfigOf(t, "https://authz.invalid:8443")},
	})
	for _, one := range []struct{ path, body string }{
		{"/api/v1/nodes", `{"metadata":{"name":"n"},"status":{"addresses":[{"type":"InternalIP","address":"10.0.0.7"}]}}`},
		{"/api/v1/namespaces/default/serviceaccounts", `{"metadata":{"name":"default"}}`},
		{"/api/v1/namespaces/default/pods", `{"metadata":{"name":"p"},"spec":{"nodeName":"n","containers":[{"name":"c","image":"i"}]}}`},
		{"/api/v1/namespaces/default/services", `{"metadata":{"name":"hook"},"spec":{"type":"ExternalName","externalName":"hook.cluster.invalid"}}`},
		{"/api/v1/namespaces/default/services", `{"metadata":{"name":"more"},"spec":{"type":"ExternalName","externalName":"more.cluster.invalid"}}`},
		{"/apis/apiregistration.k8s.io/v1/apiservices", `{"metadata":{"name":"v1.more.example.com"},"spec":{"group":"more.example.com","version":"v1","groupPriorityMinimum":1,"versionPriority":1,"insecureSkipTLSVerify":true,"service":{"namespace":"default","name":"more"}}}`},
		{"/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations", `{"metadata":{"name":"hooks"},"webhooks":[` +
			webhookFor("url", `"url":"https://hook.invalid:8443/"`) + "," + webhookFor("service", `"service":{"namespace":"default","name":"hook"}`) + `]}`},
		{"/api/v1/namespaces/default/configmaps", `{"metadata":{"name":"a"}}`},
	} {
		if code, body := s.do(t, "POST", one.path, one.body); code != 201 && code != 409 {
			t.Fatalf("POST %s: %d %s", one.path, code, body)
		}
	}
	for _, token := range []string{"jane", "nobody", idToken("https://controlplane.invalid"), idToken("https://cluster.invalid")} {
		withToken(t, s, token, "/api/v1/pods")
	}
	s.do(t, "GET", "/api/v1/namespaces/default/pods/p/log", "")
	s.do(t, "GET", "/api/v1/nodes/http:n:8080/proxy/", "")
	for _, host := range []string{"audit", "authn", "authz", "hook"} {
		awaitDial(t, toControlPlane, host+".invalid:8443")
	}
	for _, address := range []string{"10.0.0.7:10250", "10.0.0.7:8080", "hook.cluster.invalid:443", "more.cluster.invalid:443", "cluster.invalid:443"} {
		awaitDial(t, toCluster, address)
	}
	awaitDial(t, toControlPlane, "controlplane.invalid:443")
	for _, address := range toControlPlane.Addresses() {
		if slices.Contains(toCluster.Addresses(), address) {
			t.Errorf("both proxies received a request for %s", address)
		}
	}
	if code, metrics := fetch(t, s.admin, s.URL+"/metrics"); code != 200 || !strings.Contains(metrics, `apiserver_egress_dialer_dial_start_total{protocol="http_connect",transport="tcp"}`) {
		t.Errorf("%d: there are no metrics of dials", code)
	}
}

// webhookFor returns the configuration of a webhook for ConfigMaps with the failure policy Ignore.
func webhookFor(name, at string) string {
	return `{"name":"` + name + `.example.com","clientConfig":{` + at + `},"failurePolicy":"Ignore","sideEffects":"None","admissionReviewVersions":["v1"],` +
		`"rules":[{"apiGroups":[""],"apiVersions":["v1"],"operations":["CREATE"],"resources":["configmaps"]}]}`
}

// TestEgressToEtcd checks that etcd is reached through its proxy.
func TestEgressToEtcd(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("the test builds etcd")
	}
	cluster := etcdtest.Start(t, etcdtest.Options{})
	to := strings.TrimPrefix(cluster.URLs()[0], "http://")
	proxy := &selectortest.Proxy{Redirect: func(string) string { return to }}
	s := start(t, Config{
		Storage: StorageConfig{Etcd: EtcdConfig{Servers: []string{"http://etcd.invalid:2379"}}},
		Egress:  EgressConfig{SelectorConfigFile: egressConfig(t, map[string]*selectortest.Proxy{"etcd": proxy})},
	})
	if code, body := s.do(t, "POST", configMaps, `{"metadata":{"name":"a"}}`); code != 201 {
		t.Errorf("create the ConfigMap: %d %s", code, body)
	}
	awaitDial(t, proxy, "etcd.invalid:2379")
}
