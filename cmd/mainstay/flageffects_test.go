package main

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"mainstay.dev/mainstay/test/testserver"
)

// TestFlagEffects checks the effects of flags that no other test sets.
func TestFlagEffects(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "labels.yaml"), []byte("apiserver_request_total,resource: configmaps,secrets\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	server := testserver.New(t, testserver.Options{Flags: []string{
		"--kubernetes-service-node-port=30443", "--external-hostname=api.example.com", "--service-account-issuer=https://issuer.example.com",
		"--cert-dir=" + filepath.Join(dir, "certs"), "--debug-socket-path=" + filepath.Join(dir, "debug"), "--enable-logs-handler", "--contention-profiling",
		"--disabled-metrics=go_goroutines", "--allow-metric-labels-manifest=" + filepath.Join(dir, "labels.yaml"), "--watch-cache-sizes=configmaps#0",
		"--default-watch-cache-size=10", "--storage-backend=etcd3",
	}})
	client, err := kubernetes.NewForConfig(server.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	for _, warning := range []string{"flag=--default-watch-cache-size", "--storage-backend=etcd3 is set without --etcd-servers"} {
		if !strings.Contains(server.Logs(), warning) {
			t.Errorf("the log does not contain %q", warning)
		}
	}
	for _, check := range []func(*testing.T, context.Context, *kubernetes.Clientset){checkNodePort, checkServedMetrics, checkExternalName} {
		check(t, t.Context(), client)
	}
	checkDebugSocket(t, filepath.Join(dir, "debug"))
	checkVerbosity(t, client, server)
	checkCertDir(t, filepath.Join(dir, "certs"), server.URL())
	if _, err := client.Discovery().RESTClient().Get().AbsPath("/logs/").DoRaw(t.Context()); err != nil {
		t.Errorf("/logs/: %v", err)
	}
	if err := server.Stop(); err != nil {
		t.Errorf("stop: %v", err)
	}
	if _, err := os.Lstat(filepath.Join(dir, "debug")); !os.IsNotExist(err) {
		t.Errorf("the debug socket was not removed: %v", err)
	}
}

func checkNodePort(t *testing.T, ctx context.Context, client *kubernetes.Clientset) {
	service, err := client.CoreV1().Services(metav1.NamespaceDefault).Get(ctx, "kubernetes", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if service.Spec.Type != corev1.ServiceTypeNodePort || service.Spec.Ports[0].NodePort != 30443 {
		t.Errorf("the service kubernetes has type %s and ports %v", service.Spec.Type, service.Spec.Ports)
	}
}

func checkServedMetrics(t *testing.T, ctx context.Context, client *kubernetes.Clientset) {
	if _, err := client.CoreV1().Services("").List(ctx, metav1.ListOptions{}); err != nil {
		t.Fatal(err)
	}
	served, err := client.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(served)) {
		if strings.HasPrefix(line, "go_goroutines") {
			t.Errorf("a disabled metric is served: %s", line)
		}
		if strings.HasPrefix(line, "apiserver_request_total{") && strings.Contains(line, `resource="services"`) {
			t.Errorf("a value that the file does not allow is served: %s", line)
		}
	}
	if !strings.Contains(string(served), `resource="unexpected"`) {
		t.Error("there is no series with the value unexpected")
	}
}

func checkExternalName(t *testing.T, ctx context.Context, client *kubernetes.Clientset) {
	document, err := client.Discovery().RESTClient().Get().AbsPath("/.well-known/openid-configuration").DoRaw(ctx)
	if err != nil || !strings.Contains(string(document), `"jwks_uri":"https://api.example.com:`) {
		t.Errorf("the OpenID configuration is %s, %v", document, err)
	}
}

func checkDebugSocket(t *testing.T, path string) {
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the debug socket has mode %v, %v", info, err)
	}
	client := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", path)
	}}}
	response, err := client.Get("http://localhost/debug/pprof/goroutine?debug=1")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if body, err := io.ReadAll(response.Body); err != nil || !strings.Contains(string(body), "goroutine profile") {
		t.Errorf("the debug socket responds with %.100s, %v", body, err)
	}
}

// checkVerbosity checks that /debug/flags/v changes the verbosity of the log.
func checkVerbosity(t *testing.T, client *kubernetes.Clientset, server *testserver.Server) {
	t.Helper()
	put := func(body string) (string, error) {
		response, err := client.Discovery().RESTClient().Put().AbsPath("/debug/flags/v").Body([]byte(body)).DoRaw(t.Context())
		return string(response), err
	}
	if response, err := put("3"); err != nil || response != "successfully set klog.logging.verbosity to 3\n" {
		t.Errorf("set the verbosity: %s, %v", response, err)
	}
	if _, err := client.CoreV1().Secrets("default").List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(server.Logs(), "level=V3") {
		t.Error("requests are not logged with verbosity 3")
	}
	for _, body := range []string{"", "-1", "x", strings.Repeat("1", 1000)} {
		if response, err := put(body); !apierrors.IsBadRequest(err) {
			t.Errorf("set the verbosity %.10q: %s, %v", body, response, err)
		}
	}
	if _, err := client.Discovery().RESTClient().Get().AbsPath("/debug/flags/v").DoRaw(t.Context()); err == nil {
		t.Error("GET succeeded")
	}
}

// checkCertDir checks that a folder contains the server's certificate, the CA certificate that signed it, and
// the key.
func checkCertDir(t *testing.T, dir, url string) {
	encoded, err := os.ReadFile(filepath.Join(dir, "apiserver.crt"))
	if err != nil {
		t.Fatal(err)
	}
	var chain []*x509.Certificate
	for block, rest := pem.Decode(encoded); block != nil; block, rest = pem.Decode(rest) {
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			t.Fatal(err)
		}
		chain = append(chain, cert)
	}
	if len(chain) != 2 || chain[0].VerifyHostname("api.example.com") != nil || chain[0].CheckSignatureFrom(chain[1]) != nil {
		t.Errorf("%s contains %d certificates, of the server and its authority", dir, len(chain))
	}
	if info, err := os.Stat(filepath.Join(dir, "apiserver.key")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the key has mode %v, %v", info, err)
	}
}
