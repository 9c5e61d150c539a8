package main

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"mainstay.dev/mainstay/test/testserver"
)

// needOthers are the flags that need files, or another server, and flags that exclude others. Tests of
// host and controlplane set them.
func needOthers() []string {
	return []string{
		"admission-control", "admission-control-config-file", "audit-policy-file", "audit-webhook-config-file", "authentication-config",
		"authentication-token-webhook-config-file", "authorization-config", "authorization-policy-file", "authorization-webhook-config-file",
		"client-ca-file", "egress-selector-config-file", "encryption-provider-config", "encryption-provider-config-automatic-reload",
		"etcd-cafile", "etcd-certfile", "etcd-keyfile", "etcd-servers", "etcd-servers-overrides",
		"kubelet-certificate-authority", "kubelet-client-certificate", "kubelet-client-key",
		"oidc-ca-file", "oidc-client-id", "oidc-groups-claim", "oidc-groups-prefix", "oidc-issuer-url", "oidc-required-claim", "oidc-signing-algs",
		"oidc-username-claim", "oidc-username-prefix", "peer-advertise-ip", "peer-advertise-port", "peer-ca-file",
		"proxy-client-cert-file", "proxy-client-key-file", "requestheader-client-ca-file",
		"requestheader-allowed-names", "requestheader-extra-headers-prefix", "requestheader-group-headers", "requestheader-uid-headers", "requestheader-username-headers",
		"service-account-key-file", "service-account-signing-endpoint", "service-account-signing-key-file", "service-account-max-token-expiration",
		"tls-cert-file", "tls-private-key-file", "tls-sni-cert-key", "token-auth-file", "tracing-config-file", "version",
		"secure-port", "bind-address", "advertise-address", // testserver sets them
		"audit-log-mode",
	}
}

// flagValues returns the values of flags for which the value of their type is not valid, in a server
// whose files are in dir.
func flagValues(dir string) map[string]string {
	return map[string]string{
		"allow-metric-labels":                     "apiserver_request_total,verb='GET,LIST'",
		"allow-metric-labels-manifest":            filepath.Join(dir, "labels.yaml"),
		"audit-log-format":                        "json",
		"audit-log-path":                          filepath.Join(dir, "audit.log"),
		"audit-log-version":                       "audit.k8s.io/v1",
		"audit-log-batch-max-wait":                "1s",
		"audit-log-truncate-max-batch-size":       "1000000",
		"audit-log-truncate-max-event-size":       "100000",
		"audit-webhook-mode":                      "batch",
		"audit-webhook-truncate-max-batch-size":   "1000000",
		"audit-webhook-truncate-max-event-size":   "100000",
		"audit-webhook-version":                   "audit.k8s.io/v1",
		"authentication-token-webhook-version":    "v1",
		"authorization-mode":                      "Node,RBAC",
		"authorization-webhook-version":           "v1",
		"cert-dir":                                filepath.Join(dir, "certs"),
		"cors-allowed-origins":                    "^https://example\\.com$",
		"debug-socket-path":                       filepath.Join(dir, "debug"),
		"disable-admission-plugins":               "DefaultStorageClass",
		"disabled-metrics":                        "go_goroutines",
		"disable-http2-serving":                   "false",
		"emulated-version":                        "kube=1.37",
		"enable-admission-plugins":                "NodeRestriction",
		"endpoint-reconciler-type":                "master-count",
		"etcd-prefix":                             "/registry",
		"external-hostname":                       "api.example.com",
		"feature-gates":                           "WatchList=true",
		"goaway-chance":                           "0.001",
		"kubelet-preferred-address-types":         "InternalIP,Hostname",
		"kubernetes-service-node-port":            "30443",
		"logging-format":                          "json",
		"min-compatibility-version":               "kube=1.36",
		"min-request-timeout":                     "1800",
		"request-timeout":                         "1m",
		"runtime-config":                          "api/beta=false",
		"service-account-issuer":                  "https://issuer.example.com",
		"service-account-jwks-uri":                "",
		"service-cluster-ip-range":                "10.96.0.0/16",
		"service-node-port-range":                 "30000-32767",
		"show-hidden-metrics-for-version":         "1.36",
		"storage-backend":                         "etcd3",
		"storage-media-type":                      "application/vnd.kubernetes.protobuf",
		"strict-transport-security-directives":    "max-age=31536000",
		"tls-cipher-suites":                       "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
		"tls-curve-preferences":                   "29,23",
		"tls-min-version":                         "VersionTLS12",
		"vmodule":                                 "store*=4",
		"watch-cache-sizes":                       "pods#100,deployments.apps#0",
		"aggregator-reject-forwarding-redirect":   "true",
		"api-audiences":                           "https://issuer.example.com",
		"shutdown-watch-termination-grace-period": "100ms",
		"shutdown-delay-duration":                 "0s",
		"max-connection-bytes-per-sec":            "1000000",
	}
}

// valuesOfTypes returns a valid value of most flags by their type.
func valuesOfTypes() map[string]string {
	return map[string]string{"bool": "true", "int": "10", "int64": "10", "duration": "10s", "float32": "10", "quantity": "64Ki", "Level": "2"}
}

// allFlags returns arguments with all flags of kube-apiserver but needOthers.
func allFlags(t *testing.T, dir string) []string {
	t.Helper()
	var args []string
	values := flagValues(dir)
	for _, flag := range listUpstreamFlags() {
		if slices.Contains(needOthers(), flag.name) {
			continue
		}
		value, named := values[flag.name]
		if !named {
			var known bool
			if value, known = valuesOfTypes()[flag.kind]; !known {
				t.Fatalf("there is no value of type %s for --%s", flag.kind, flag.name)
			}
		}
		args = append(args, "--"+flag.name+"="+value)
	}
	return args
}

// TestAllFlags starts a server with all flags of kube-apiserver that need no other server, and checks
// the effects of flags that no other test sets.
func TestAllFlags(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "labels.yaml"), []byte("apiserver_request_total,resource: configmaps,secrets\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	server := testserver.New(t, testserver.Options{Flags: allFlags(t, dir)})
	client, err := kubernetes.NewForConfig(server.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	for _, flag := range listUpstreamFlags() {
		if warned := strings.Contains(server.Logs(), "--"+flag.name+" has no effect"); flag.noEffect != "" && !warned {
			t.Errorf("there is no warning for --%s", flag.name)
		}
	}
	for _, check := range []func(*testing.T, context.Context, *kubernetes.Clientset){checkNodePort, checkServedMetrics, checkExternalName} {
		check(t, t.Context(), client)
	}
	checkDebugSocket(t, filepath.Join(dir, "debug"))
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

// checkCertDir checks that the certificates in a folder verify the server.
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

// TestIgnoredValues checks that flags without effect check the types of their values.
func TestIgnoredValues(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		kind, text string
		valid      bool
	}{
		{"bool", "true", true}, {"bool", "x", false}, {"int", "3", true}, {"int", "3s", false}, {"duration", "3s", true}, {"duration", "3", false},
		{"quantity", "64Ki", true}, {"quantity", "x", false}, {"stringSlice", "a,b", true},
	} {
		t.Run(fmt.Sprintf("%s=%s", tt.kind, tt.text), func(t *testing.T) {
			t.Parallel()
			value := &ignoredValue{kind: tt.kind}
			if err := value.Set(tt.text); (err == nil) != tt.valid {
				t.Errorf("got %v, valid is %t", err, tt.valid)
			}
		})
	}
}
