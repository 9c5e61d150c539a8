package host

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/blang/semver/v4"
	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"mainstay.dev/mainstay/internal/controlplane"
	"mainstay.dev/mainstay/internal/telemetry"
	"mainstay.dev/mainstay/test/testserver"
)

// running is a server under test.
type running struct {
	Serving
	stop  context.CancelFunc // starts the shutdown
	ended chan error         // result of Run
	admin *http.Client
	host  *Host
}

// listen listens on a free port.
func listen(t testing.TB) net.Listener {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return listener
}

// start runs a server on a free port and stops it when the test ends.
func start(t testing.TB, config Config) *running {
	t.Helper()
	if config.Listen.Listener == nil {
		config.Listen.Listener = listen(t)
	}
	if config.Storage.DataDir == "" {
		config.Storage.DataDir = t.TempDir()
	}
	serving := make(chan Serving, 1)
	config.OnServing = func(s Serving) { serving <- s }
	s, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	r := &running{stop: stop, ended: make(chan error, 1), host: s}
	go func() { r.ended <- s.Run(ctx) }()
	select {
	case r.Serving = <-serving:
	case err := <-r.ended:
		stop()
		t.Fatalf("the server ended: %v", err)
	}
	t.Cleanup(func() { r.end(t) })
	config2, err := clientcmd.BuildConfigFromFlags("", r.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	if r.admin, err = rest.HTTPClientFor(config2); err != nil {
		t.Fatal(err)
	}
	return r
}

// end stops the server and waits until Run returns. It does nothing if the server has already ended.
func (r *running) end(t testing.TB) {
	t.Helper()
	r.stop()
	if err, open := <-r.ended; open {
		close(r.ended)
		if err != nil {
			t.Errorf("the server ended with: %v", err)
		}
	}
}

// client returns a client without credentials that accepts any server certificate.
func client(t testing.TB, change func(*tls.Config)) *http.Client {
	config := &tls.Config{InsecureSkipVerify: true}
	if change != nil {
		change(config)
	}
	transport := &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: true}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

func fetch(t testing.TB, c *http.Client, url string, header ...string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), "GET", url, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	resp, err := c.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

func TestResponses(t *testing.T) {
	t.Parallel()
	s := start(t, Config{})
	anonymous := client(t, nil)
	tests := []struct {
		name   string
		client *http.Client
		path   string
		header []string
		code   int
		body   string // expected body, or message of a Status; "" means that any body is valid
	}{
		{"health for everyone", anonymous, "/healthz", nil, 200, "ok"},
		{"liveness for everyone", anonymous, "/livez", nil, 200, "ok"},
		{"readiness for everyone", anonymous, "/readyz", nil, 200, "ok"},
		{"a post-start hook", s.admin, "/healthz/poststarthook/rbac/bootstrap-roles", nil, 200, "ok"},
		{"version for everyone", anonymous, "/version", nil, 200, ""},
		{"version with a slash", anonymous, "/version/", nil, 200, ""},
		{"single checks are not for everyone", anonymous, "/readyz/etcd", nil, 403, `forbidden: User "system:anonymous" cannot get path "/readyz/etcd"`},
		{"nor metrics", anonymous, "/metrics", nil, 403, `forbidden: User "system:anonymous" cannot get path "/metrics"`},
		{"nor resources", anonymous, "/api/v1/namespaces/default/pods", nil, 403,
			`pods is forbidden: User "system:anonymous" cannot list resource "pods" in API group "" in the namespace "default"`},
		{"nor what is not there", anonymous, "/nope", nil, 403, `forbidden: User "system:anonymous" cannot get path "/nope"`},
		{"a bad token even where none is needed", anonymous, "/version", []string{"Authorization", "Bearer nonsense"}, 401, "Unauthorized"},
		{"a certificate outweighs a bad token", s.admin, "/metrics", []string{"Authorization", "Bearer nonsense"}, 200, ""},
		{"a single check", s.admin, "/readyz/etcd", nil, 200, "ok"},
		{"no such check", s.admin, "/readyz/nope", nil, 404, "404 page not found\n"},
		{"impersonation", s.admin, "/api/v1/namespaces", []string{"Impersonate-User", "jane"}, 403,
			`namespaces is forbidden: User "jane" cannot list resource "namespaces" in API group "" at the cluster scope`},
		{"impersonation of nobody", s.admin, "/version", []string{"Impersonate-Group", ""}, 400,
			`requested &user.DefaultInfo{Name:"", UID:"", Groups:[]string{""}, Extra:map[string][]string(nil)} without impersonating a user name`},
		{"impersonation without credentials", anonymous, "/api/v1/pods", []string{"Impersonate-User", "jane"}, 403,
			`pods is forbidden: User "system:anonymous" cannot impersonate-on:user-info:list resource "pods" in API group "" at the cluster scope`},
		{"impersonation by who is not known", anonymous, "/version", []string{"Impersonate-User", "jane", "Authorization", "Bearer nonsense"}, 401, "Unauthorized"},
		{"no such path", s.admin, "/nope", nil, 404, "404 page not found\n"},
		{"no such resource", s.admin, "/api/v1/nope", nil, 404, "the server could not find the requested resource"},
		{"service level indicators", s.admin, "/metrics/slis", nil, 200, ""},
		{"profiles", s.admin, "/debug/pprof/", nil, 200, ""},
		{"no such profile", s.admin, "/debug/pprof/cmdline", nil, 404, "Unknown profile\n"},
		{"the index", s.admin, "/", nil, 200, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			code, body := fetch(t, tt.client, s.URL+tt.path, tt.header...)
			var status metav1.Status
			if json.Unmarshal([]byte(body), &status) == nil && status.Message != "" {
				body = status.Message
			}
			if code != tt.code || tt.body != "" && body != tt.body {
				t.Errorf("got %d %q, want %d %q", code, body, tt.code, tt.body)
			}
		})
	}
}

// TestUntrustedAuthority checks that the server logs only once that a client does not trust its certificate,
// because the client uses the CA of another data directory.
func TestUntrustedAuthority(t *testing.T) {
	t.Parallel()
	var log testserver.Buffer
	s, other := start(t, Config{Logger: slog.New(slog.NewTextHandler(&log, nil))}), start(t, Config{})
	stranger, err := clientcmd.BuildConfigFromFlags("", other.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		client, err := rest.HTTPClientFor(stranger)
		if err != nil {
			t.Fatal(err)
		}
		if resp, err := client.Get(s.URL + "/healthz"); err == nil {
			resp.Body.Close()
			t.Fatal("a certificate of another authority was trusted")
		}
		client.CloseIdleConnections()
	}
	// The log entry of a failed handshake is written before the handshake is visible in the metrics below.
	testserver.Eventually(t, time.Minute, func() error {
		if _, metrics := fetch(t, s.admin, s.URL+"/metrics"); !strings.Contains(metrics, "\napiserver_tls_handshake_errors_total 2\n") {
			return errors.New("two handshakes are not counted")
		}
		return nil
	})
	if got := strings.Count(log.String(), "a client does not trust this server's certificate"); got != 1 {
		t.Errorf("the warning was logged %d times, want once:\n%s", got, log.String())
	}
}

// healthOfKubernetes contains the names of the checks in a recorded /readyz response of kube-apiserver. It does
// not contain the checks of components that this server does not have.
const healthOfKubernetes = `ping log etcd etcd-readiness informer-sync
poststarthook/start-apiserver-admission-initializer poststarthook/generic-apiserver-start-informers
poststarthook/priority-and-fairness-config-consumer poststarthook/priority-and-fairness-filter
poststarthook/start-apiextensions-informers poststarthook/start-apiextensions-controllers poststarthook/crd-informer-synced
poststarthook/start-system-namespaces-controller poststarthook/start-cluster-authentication-info-controller
poststarthook/start-kube-apiserver-identity-lease-controller poststarthook/start-kube-apiserver-identity-lease-garbage-collector poststarthook/storage-readiness
poststarthook/start-legacy-token-tracking-controller poststarthook/rbac/bootstrap-roles poststarthook/scheduling/bootstrap-system-priority-classes
poststarthook/priority-and-fairness-config-producer poststarthook/bootstrap-controller poststarthook/start-kubernetes-service-cidr-controller
poststarthook/start-service-ip-repair-controllers
poststarthook/aggregator-reload-proxy-client-cert poststarthook/start-kube-aggregator-informers poststarthook/apiservice-status-local-available-controller
poststarthook/apiservice-status-remote-available-controller poststarthook/apiservice-registration-controller poststarthook/apiservice-wait-for-first-sync
poststarthook/apiservice-discovery-controller poststarthook/kube-apiserver-autoregistration autoregister-completion
poststarthook/apiservice-openapi-controller poststarthook/apiservice-openapiv3-controller shutdown`

// TestVerboseHealth checks that the health checks have the same names and order as in kube-apiserver.
func TestVerboseHealth(t *testing.T) {
	t.Parallel()
	s := start(t, Config{ControlPlane: controlplane.Options{Checks: []telemetry.Check{{Name: "log", Run: func(context.Context) error { return nil }}}}})
	for path, without := range map[string][]string{
		"readyz": nil, "livez": {"etcd-readiness", "informer-sync", "shutdown"}, "healthz": {"etcd-readiness", "informer-sync", "shutdown"},
	} {
		var want strings.Builder
		for _, name := range strings.Fields(healthOfKubernetes) {
			if !slices.Contains(without, name) {
				fmt.Fprintf(&want, "[+]%s ok\n", name)
			}
		}
		want.WriteString(path + " check passed\n")
		code, got := fetch(t, client(t, nil), s.URL+"/"+path+"?verbose")
		if diff := cmp.Diff(want.String(), got); diff != "" || code != 200 {
			t.Errorf("/%s returns %d (-want +got):\n%s", path, code, diff)
		}
	}
}

// kubernetesMinor returns the minor version of the served Kubernetes API.
func kubernetesMinor(t *testing.T) int {
	t.Helper()
	v, err := semver.ParseTolerant(controlplane.KubernetesVersion())
	if err != nil {
		t.Fatal(err)
	}
	return int(v.Minor)
}

func TestVersion(t *testing.T) {
	t.Parallel()
	s := start(t, Config{Version: "1.2.3"})
	_, body := fetch(t, client(t, nil), s.URL+"/version")
	var got version.Info
	if err := json.Unmarshal([]byte(body), &got); err != nil {
		t.Fatal(err)
	}
	minor := kubernetesMinor(t)
	if got.Major != "1" || got.Minor != strconv.Itoa(minor) || got.GitVersion != controlplane.KubernetesVersion()+"+mainstay-1.2.3" ||
		got.EmulationMinor != strconv.Itoa(minor) || got.MinCompatibilityMinor != strconv.Itoa(minor-1) {
		t.Errorf("the version is %+v", got)
	}
	if !slices.Contains([]string{"clean", "dirty", "archive"}, got.GitTreeState) {
		t.Errorf("the tree state is %q", got.GitTreeState)
	}
	if _, err := time.Parse(time.RFC3339, got.BuildDate); err != nil {
		t.Errorf("the build date is invalid: %v", err)
	}
	if got.GoVersion == "" || got.Compiler == "" || got.Platform == "" || got.EmulationMajor == "" || got.MinCompatibilityMajor == "" {
		t.Errorf("a field is missing: %+v", got)
	}
}

// TestTwoServersAreIndependent checks that two servers in one process have their own users, objects and
// metrics.
func TestTwoServersAreIndependent(t *testing.T) {
	t.Parallel()
	one, two := start(t, Config{}), start(t, Config{})
	create := func(s *running) int {
		resp, err := s.admin.Post(s.URL+"/api/v1/namespaces", "application/json", strings.NewReader(`{"metadata":{"name":"a"}}`))
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		return resp.StatusCode
	}
	if code := create(one); code != 201 {
		t.Fatalf("create in one: %d", code)
	}
	if code, _ := fetch(t, two.admin, two.URL+"/api/v1/namespaces/a"); code != 404 {
		t.Errorf("two has an object of one: %d", code)
	}
	if _, metrics := fetch(t, two.admin, two.URL+"/metrics"); strings.Contains(metrics, `verb="POST"`) {
		t.Error("two counts a request to one")
	}
	if code := create(two); code != 201 {
		t.Errorf("create in two: %d", code)
	}
	// The server two does not accept the certificate of the administrator of one.
	config, err := clientcmd.BuildConfigFromFlags("", one.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(config.CertData, config.KeyData)
	if err != nil {
		t.Fatal(err)
	}
	stranger := client(t, func(c *tls.Config) {
		c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }
	})
	if code, body := fetch(t, stranger, two.URL+"/api/v1/namespaces"); code != 401 {
		t.Errorf("the administrator of one at two: %d %s", code, body)
	}
}

// TestRestart checks that credentials stay valid after a restart.
func TestRestart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first := start(t, Config{Storage: StorageConfig{DataDir: dir}})
	kubeconfig, err := os.ReadFile(first.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	first.end(t)
	second := start(t, Config{Storage: StorageConfig{DataDir: dir}})
	again, err := os.ReadFile(second.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	same := strings.ReplaceAll(string(kubeconfig), first.URL, second.URL)
	if diff := cmp.Diff(same, string(again)); diff != "" {
		t.Errorf("the kubeconfig has changed (-before +after):\n%s", diff)
	}
	if code, _ := fetch(t, second.admin, second.URL+"/api/v1/namespaces/default"); code != 200 {
		t.Errorf("get a namespace: %d", code)
	}
}

func TestProtocols(t *testing.T) {
	t.Parallel()
	s := start(t, Config{})
	for _, want := range []string{"HTTP/1.1", "HTTP/2.0"} {
		c := client(t, nil)
		c.Transport.(*http.Transport).Protocols = new(http.Protocols)
		c.Transport.(*http.Transport).Protocols.SetHTTP1(want == "HTTP/1.1")
		c.Transport.(*http.Transport).Protocols.SetHTTP2(want == "HTTP/2.0")
		resp, err := c.Get(s.URL + "/readyz")
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.Proto != want || resp.StatusCode != 200 {
			t.Errorf("%s %d, want %s", resp.Proto, resp.StatusCode, want)
		}
		for header, want := range map[string]bool{"Audit-Id": true, "Cache-Control": true, "Strict-Transport-Security": false} {
			if got := resp.Header.Get(header) != ""; got != want {
				t.Errorf("header %s: %t, want %t", header, got, want)
			}
		}
	}
	old := client(t, func(c *tls.Config) { c.MaxVersion = tls.VersionTLS11 })
	if _, err := old.Get(s.URL + "/readyz"); err == nil {
		t.Error("TLS 1.1 was accepted")
	}
}

func TestDataDirInUse(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := start(t, Config{Storage: StorageConfig{DataDir: dir}})
	other, err := New(Config{Storage: StorageConfig{DataDir: dir}, Listen: ListenConfig{SecurePort: AnyPort}})
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Run(t.Context()); !errors.Is(err, ErrInUse) || !strings.Contains(err.Error(), "--data-dir") {
		t.Errorf("a second server on the same directory: %v", err)
	}
	if code, _ := fetch(t, client(t, nil), s.URL+"/readyz"); code != 200 {
		t.Errorf("the first server returns %d", code)
	}
	if err := other.Run(t.Context()); !errors.Is(err, ErrRunTwice) {
		t.Errorf("a second run: %v", err)
	}
}

// TestStop checks that /readyz fails immediately, that requests are served during the shutdown delay, and that
// a watch ends gracefully.
func TestStop(t *testing.T) {
	t.Parallel()
	s := start(t, Config{Shutdown: ShutdownConfig{Delay: 2 * time.Second}})
	watch, err := s.admin.Get(s.URL + "/api/v1/namespaces?watch=true&resourceVersion=0")
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Body.Close()
	s.stop()
	for {
		if code, body := fetch(t, s.admin, s.URL+"/readyz"); code == 500 {
			if !strings.Contains(body, "[-]shutdown failed: reason withheld") {
				t.Errorf("/readyz returned %q", body)
			}
			break
		}
	}
	if code, _ := fetch(t, s.admin, s.URL+"/livez"); code != 200 {
		t.Errorf("/livez during the delay: %d", code)
	}
	if code, _ := fetch(t, s.admin, s.URL+"/api/v1/namespaces/default"); code != 200 {
		t.Errorf("a request during the delay: %d", code)
	}
	events, err := io.ReadAll(watch.Body)
	if err != nil {
		t.Errorf("the watch did not end gracefully: %v", err)
	}
	if n := strings.Count(string(events), `"ADDED"`); n != 4 {
		t.Errorf("the watch returned %d namespaces, want 4", n)
	}
	s.end(t)
	if _, err := client(t, nil).Get(s.URL + "/readyz"); err == nil {
		t.Error("the port is still open")
	}
}

func TestConfigProblems(t *testing.T) {
	t.Parallel()
	_, err := New(Config{
		Listen:  ListenConfig{SecurePort: 70000},
		Storage: StorageConfig{Prefix: "registry", Encryption: EncryptionConfig{Reload: true}},
		TLS:     TLSConfig{CertFile: "a"},
		ControlPlane: controlplane.Options{
			Requests:      controlplane.RequestOptions{GoAwayChance: 0.5, Timeout: -1, CORSAllowedOrigins: []string{"example.com"}, HSTSDirectives: []string{"preload"}},
			Authorization: controlplane.AuthorizationOptions{Modes: []string{"Nope", "AlwaysAllow", "AlwaysAllow"}},
			Services:      controlplane.ServiceOptions{ClusterIPRange: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/30"), netip.MustParsePrefix("10.1.0.0/24")}},
		},
	})
	if err == nil {
		t.Fatal("New returned no error")
	}
	for _, want := range []string{
		"--secure-port is 70000", "--goaway-chance is 0.5", `--etcd-prefix is "registry"`, "--request-timeout is -1ns",
		"--tls-private-key-file must be given together", "--encryption-provider-config-automatic-reload must be set with --encryption-provider-config", `--authorization-mode: "Nope" is not a valid mode`, "names AlwaysAllow twice",
		"--cors-allowed-origins", "--strict-transport-security-directives", "10.0.0.0/30 is too small",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not contain %q:\n%v", want, err)
		}
	}
}

func TestAuthorizationModes(t *testing.T) {
	t.Parallel()
	tests := []struct {
		mode              string
		anonymous, public int
	}{
		{"AlwaysAllow", 401, 401}, // as in kube-apiserver, anonymous requests are rejected
		{"AlwaysDeny", 403, 403},
	}
	for _, tt := range tests {
		t.Run(tt.mode, func(t *testing.T) {
			t.Parallel()
			s := start(t, Config{ControlPlane: controlplane.Options{Authorization: controlplane.AuthorizationOptions{Modes: []string{tt.mode}}}})
			if code, _ := fetch(t, client(t, nil), s.URL+"/api/v1/pods"); code != tt.anonymous {
				t.Errorf("anonymous: %d, want %d", code, tt.anonymous)
			}
			if code, _ := fetch(t, client(t, nil), s.URL+"/readyz"); code != tt.public {
				t.Errorf("anonymous at /readyz: %d, want %d", code, tt.public)
			}
			if code, _ := fetch(t, s.admin, s.URL+"/readyz"); code != 200 {
				t.Errorf("the administrator: %d", code)
			}
		})
	}
}

func TestHosts(t *testing.T) {
	t.Parallel()
	s := start(t, Config{Listen: ListenConfig{BindAddress: netip.MustParseAddr("127.0.0.5"), AdvertiseAddress: netip.MustParseAddr("192.0.2.7")}})
	var leaf *x509.Certificate
	c := client(t, func(c *tls.Config) {
		c.VerifyConnection = func(state tls.ConnectionState) error { leaf = state.PeerCertificates[0]; return nil }
	})
	fetch(t, c, s.URL+"/readyz")
	hostname, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	for _, host := range []string{"localhost", "127.0.0.1", "::1", hostname, "kubernetes", "kubernetes.default", "kubernetes.default.svc",
		"kubernetes.default.svc.cluster.local", "10.0.0.1", "127.0.0.5", "192.0.2.7"} {
		if err := leaf.VerifyHostname(host); err != nil {
			t.Error(err)
		}
	}
}

func TestOwnCertificates(t *testing.T) {
	t.Parallel()
	// Use the files of another server as the certificates that an administrator provides.
	dir := t.TempDir()
	start(t, Config{Storage: StorageConfig{DataDir: dir}, Listen: ListenConfig{AdvertiseAddress: netip.MustParseAddr("192.0.2.7")}}).end(t)
	file := func(name string) string { return filepath.Join(dir, pkiDir, name) }
	s := start(t, Config{
		TLS:            TLSConfig{CertFile: file("apiserver.crt"), KeyFile: file("apiserver.key"), MinVersion: tls.VersionTLS13},
		Authentication: AuthenticationConfig{ClientCAFile: file("ca.crt")},
	})
	if code, _ := fetch(t, s.admin, s.URL+"/api/v1/namespaces/default"); code != 200 {
		t.Errorf("the administrator: %d", code)
	}
	pair, err := tls.LoadX509KeyPair(file("admin.crt"), file("admin.key"))
	if err != nil {
		t.Fatal(err)
	}
	theirs := client(t, func(c *tls.Config) { c.Certificates = []tls.Certificate{pair} })
	if code, _ := fetch(t, theirs, s.URL+"/api/v1/namespaces/default"); code != 200 {
		t.Errorf("a user with a certificate of --client-ca-file: %d", code)
	}
	if _, err := client(t, func(c *tls.Config) { c.MaxVersion = tls.VersionTLS12 }).Get(s.URL + "/readyz"); err == nil {
		t.Error("TLS 1.2 was accepted in spite of --tls-min-version")
	}
}

// BenchmarkStart measures the time from New to the first successful response of /readyz.
func BenchmarkStart(b *testing.B) {
	bench := func(b *testing.B, dir func() string) {
		for b.Loop() {
			s := start(b, Config{Storage: StorageConfig{DataDir: dir()}})
			fetch(b, s.admin, s.URL+"/readyz")
			b.StopTimer()
			s.admin.CloseIdleConnections()
			s.end(b)
			b.StartTimer()
		}
	}
	b.Run("first", func(b *testing.B) {
		bench(b, func() string { return filepath.Join(b.TempDir(), "data") })
	})
	b.Run("again", func(b *testing.B) {
		dir := b.TempDir()
		bench(b, func() string { return dir })
	})
}
