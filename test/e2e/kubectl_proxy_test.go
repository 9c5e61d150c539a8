package e2e

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"mainstay.dev/mainstay/internal/egress/kubelet/kubelettest"
	"mainstay.dev/mainstay/internal/egress/selector/selectortest"
	"mainstay.dev/mainstay/test/testserver"
)

// TestKubectlProxy checks that kubectl and "kubectl proxy" can connect to kubelets, pods and services that are
// only reachable through an egress proxy.
func TestKubectlProxy(t *testing.T) {
	t.Parallel()
	kubelet := kubelettest.New(t)
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		_, _ = fmt.Fprintf(w, "site: %s %s %s", r.Method, r.URL.RequestURI(), body)
	}))
	t.Cleanup(site.Close)
	toCluster := &selectortest.Proxy{Redirect: func(address string) string {
		if address == "10.0.0.8:8080" {
			return site.Listener.Addr().String()
		}
		return kubelet.Listener.Addr().String()
	}}
	proxy := httptest.NewServer(toCluster)
	t.Cleanup(proxy.Close)
	egress := filepath.Join(t.TempDir(), "egress.yaml")
	text := "apiVersion: apiserver.k8s.io/v1beta1\nkind: EgressSelectorConfiguration\negressSelections:\n" +
		"- {name: cluster, connection: {proxyProtocol: HTTPConnect, transport: {tcp: {url: '" + proxy.URL + "'}}}}\n"
	if err := os.WriteFile(egress, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	srv := testserver.New(t, testserver.Options{Flags: []string{"--egress-selector-config-file=" + egress}})
	k := newKubectl(t, srv, t.TempDir())
	k.createNode("10.0.0.7", 10250, "10.0.0.8")
	k.okWith(`
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {ports: [{name: http, port: 80, targetPort: 8080}]}
---
apiVersion: v1
kind: Endpoints
metadata: {name: web}
subsets: [{addresses: [{ip: 10.0.0.8, targetRef: {kind: Pod, name: p, namespace: `+k.namespace+`}}], ports: [{name: http, port: 8080}]}]
`, "create", "-f", "-")

	served := k.begin("proxy", "--port=0", "--append-server-path")
	served.await("Starting to serve on 127.0.0.1:")
	local := "http://" + regexp.MustCompile(`127\.0\.0\.1:\d+`).FindString(served.stdout.String())
	pods := "/api/v1/namespaces/" + k.namespace
	for path, want := range map[string]string{
		"/api/v1/nodes/" + k.namespace + "/proxy/echo/x?a=b": "GET /echo/x?a=b",
		pods + "/pods/p:8080/proxy/a/b?c=d":                  "site: GET /a/b?c=d ",
		pods + "/services/web:http/proxy/":                   "site: GET / ",
		pods + "/services/http:web:80/proxy/x":               "site: GET /x ",
		pods + "/pods/p/log?container=c":                     "log of /containerLogs/" + k.namespace + "/p/c?\n",
	} {
		if got := k.ok("get", "--raw", path); got != want {
			t.Errorf("%s by kubectl get --raw: %q, want %q", path, got, want)
		}
		if got := get(t, local+path); got != want {
			t.Errorf("%s by kubectl proxy: %q", path, got)
		}
	}
	answer, err := http.Post(local+pods+"/services/web:http/proxy/form", "text/plain", strings.NewReader("sent"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	if got, err := io.ReadAll(answer.Body); err != nil || string(got) != "site: POST /form sent" {
		t.Errorf("post through kubectl proxy: %q, %v", got, err)
	}
	k.prints("hello", "exec", "p", "-c", "c", "--", "hello")
	if got := toCluster.Addresses(); !slices.Contains(got, "10.0.0.7:10250") || !slices.Contains(got, "10.0.0.8:8080") {
		t.Error(got)
	}
}

func get(t *testing.T, url string) string {
	t.Helper()
	answer, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	got, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(got)
}
