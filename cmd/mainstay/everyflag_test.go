package main

import (
	"crypto/tls"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"mainstay.dev/mainstay/internal/filters/authn/serviceaccount/external/externaltest"
	"mainstay.dev/mainstay/internal/host/pki"
	"mainstay.dev/mainstay/internal/storage/kv/etcdtest"
)

// flagFiles creates the files whose names are values of flags.
type flagFiles struct {
	*testing.T
	dir string // directory of keys and certificates
}

func newFlagFiles(t *testing.T) flagFiles {
	t.Helper()
	f := flagFiles{t, filepath.Join(t.TempDir(), "pki")}
	authority, err := pki.Open(f.dir)
	if err == nil {
		_, _, err = authority.Client("admin", "admin", "system:masters")
	}
	if err == nil {
		_, err = authority.Serving([]string{"localhost"})
	}
	if err == nil {
		_, err = pki.SigningKey(f.dir)
	}
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func (f flagFiles) in(name string) string { return filepath.Join(f.dir, name) }

// file creates a file and returns its path.
func (f flagFiles) file(name, content string) string {
	f.Helper()
	path := filepath.Join(f.dir, name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		f.Fatal(err)
	}
	return path
}

func (f flagFiles) kubeconfig() string {
	return f.file("kubeconfig", "current-context: w\ncontexts: [{name: w, context: {cluster: w, user: w}}]\nclusters: [{name: w, cluster: {server: 'http://127.0.0.1:1'}}]\nusers: [{name: w, user: {token: mine}}]\n")
}

// common returns the flags that all servers of the test have.
func (f flagFiles) common() map[string]string {
	return map[string]string{
		"bind-address": "127.0.0.1", "secure-port": fmt.Sprint(freePort(f.T)), "advertise-address": "127.0.0.1",
	}
}

// etcdFlags returns the flags of a server that uses etcd. They include deprecated and rarely used flags.
func (f flagFiles) etcdFlags() map[string]string {
	etcd := etcdtest.Start(f.T, etcdtest.Options{TLS: true})
	urls := strings.Join(etcd.URLs(), ",")
	return map[string]string{
		"etcd-servers": urls, "etcd-servers-overrides": "/events#" + strings.Join(etcd.URLs(), ";"),
		"etcd-cafile": etcd.Files.CA, "etcd-certfile": etcd.Files.ClientCert, "etcd-keyfile": etcd.Files.ClientKey,
		"etcd-prefix": "/registry", "etcd-compaction-interval": "5m", "etcd-count-metric-poll-period": "1m", "etcd-db-metric-poll-interval": "30s",
		"etcd-healthcheck-timeout": "2s", "etcd-readycheck-timeout": "2s", "lease-reuse-duration-seconds": "60",
		"storage-backend": "etcd3", "storage-media-type": "application/vnd.kubernetes.protobuf", "storage-initialization-timeout": "1m",
		"encryption-provider-config":                  f.file("encryption", "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources: [{resources: [secrets], providers: [{identity: {}}]}]\n"),
		"encryption-provider-config-automatic-reload": "true",
		"default-watch-cache-size":                    "100", "watch-cache": "true", "watch-cache-sizes": "secrets#0,deployments.apps#100",
		"delete-collection-workers": "2", "enable-garbage-collector": "true", "event-ttl": "1h",
		"admission-control": "NamespaceLifecycle,ServiceAccount", "apiserver-count": "3", "endpoint-reconciler-type": "master-count",
		"service-account-signing-endpoint": externaltest.New(f.T).Socket, "service-account-issuer": "https://kubernetes.default.svc", "service-account-lookup": "true",
		"feature-gates": "UnknownVersionInteroperabilityProxy=true,APIServerIdentity=true,StorageVersionAPI=true", "runtime-config": "api/all=true",
		"peer-ca-file": f.in("ca.crt"), "peer-advertise-ip": "127.0.0.1", "peer-advertise-port": "6443",
		"client-ca-file": f.in("ca.crt"), "cert-dir": filepath.Join(f.dir, "certs"), "allow-metric-labels-manifest": f.file("labels", "\"apiserver_request_total,verb\": \"GET,POST\"\n"),
		"log-json-split-stream": "true", "log-json-info-buffer-size": "1Ki", "logging-format": "json",
		"authentication-config":               f.file("authentication", "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\n"),
		"authorization-config":                f.file("authorization", "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthorizationConfiguration\nauthorizers: [{type: Node, name: node}, {type: RBAC, name: rbac}]\n"),
		"audit-webhook-batch-initial-backoff": "10s",
	}
}

// embeddedFlags returns the flags of a server with the embedded store.
func (f flagFiles) embeddedFlags() map[string]string {
	flags := map[string]string{
		"data-dir":                      filepath.Join(f.dir, "data"),
		"admission-control-config-file": f.file("admission", "apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\n"),
		"enable-admission-plugins":      "NodeRestriction", "disable-admission-plugins": "PersistentVolumeClaimResize",
		"aggregator-reject-forwarding-redirect": "true", "enable-aggregator-routing": "true", "allow-metric-labels": "apiserver_request_total,verb=GET",
		"disabled-metrics": "go_goroutines", "show-hidden-metrics-for-version": "1.36",
		"allow-privileged": "true", "anonymous-auth": "true", "api-audiences": "api",
		"authentication-token-webhook-config-file": f.kubeconfig(), "authentication-token-webhook-version": "v1", "authentication-token-webhook-cache-ttl": "1m",
		"authorization-mode": "Node,RBAC,ABAC,Webhook", "authorization-policy-file": f.file("abac", "{\"user\":\"joe\",\"readonly\":true}\n"),
		"authorization-webhook-config-file": f.kubeconfig(), "authorization-webhook-version": "v1",
		"authorization-webhook-cache-authorized-ttl": "5m", "authorization-webhook-cache-unauthorized-ttl": "30s",
		"contention-profiling": "true", "profiling": "true", "console": "true", "debug-socket-path": filepath.Join(f.TempDir(), "s"), "enable-logs-handler": "true",
		"coordinated-leadership-lease-duration": "15s", "coordinated-leadership-renew-deadline": "10s", "coordinated-leadership-retry-period": "2s",
		"cors-allowed-origins": "^https://example\\.com$", "disable-http2-serving": "false", "http2-max-streams-per-connection": "100",
		"egress-selector-config-file": f.file("egress", "apiVersion: apiserver.k8s.io/v1beta1\nkind: EgressSelectorConfiguration\negressSelections: [{name: cluster, connection: {proxyProtocol: Direct}}]\n"),
		"emulated-version":            "kube=1.37", "emulation-forward-compatible": "true", "min-compatibility-version": "kube=1.36", "runtime-config-emulation-forward-compatible": "true",
		"enable-bootstrap-token-auth": "true", "enable-priority-and-fairness": "true", "max-requests-inflight": "400", "max-mutating-requests-inflight": "200",
		"external-hostname": "api.example.com", "goaway-chance": "0.01", "request-timeout": "1m", "min-request-timeout": "1800",
		"kubelet-certificate-authority": f.in("ca.crt"), "kubelet-client-certificate": f.in("admin.crt"), "kubelet-client-key": f.in("admin.key"),
		"kubelet-preferred-address-types": "InternalIP,Hostname", "kubelet-timeout": "5s",
		"kubernetes-service-node-port": "30443", "service-node-port-range": "30000-32767", "service-cluster-ip-range": "10.96.0.0/12",
		"livez-grace-period": "10s", "max-connection-bytes-per-sec": "1000000",
		"log-flush-frequency": "5s", "log-text-split-stream": "true", "log-text-info-buffer-size": "1Ki", "v": "0", "vmodule": "watch*=3",
		"oidc-issuer-url": "https://127.0.0.1:1", "oidc-client-id": "kubernetes", "oidc-ca-file": f.in("ca.crt"), "oidc-groups-claim": "groups", "oidc-groups-prefix": "oidc:",
		"oidc-required-claim": "a=b", "oidc-signing-algs": "RS256", "oidc-username-claim": "sub", "oidc-username-prefix": "oidc:",
		"permit-address-sharing": "true", "permit-port-sharing": "true",
		"tracing-config-file":    f.file("tracing", "apiVersion: apiserver.config.k8s.io/v1\nkind: TracingConfiguration\nendpoint: 127.0.0.1:1\n"),
		"proxy-client-cert-file": f.in("admin.crt"), "proxy-client-key-file": f.in("admin.key"),
		"requestheader-client-ca-file": f.in("ca.crt"), "requestheader-allowed-names": "front-proxy", "requestheader-extra-headers-prefix": "X-Remote-Extra-",
		"requestheader-group-headers": "X-Remote-Group", "requestheader-uid-headers": "X-Remote-Uid", "requestheader-username-headers": "X-Remote-User",
		"service-account-extend-token-expiration": "true", "service-account-issuer": "https://kubernetes.default.svc", "service-account-jwks-uri": "https://example.com/jwks",
		"service-account-key-file": f.in("sa.pub"), "service-account-signing-key-file": f.in("sa.key"), "service-account-max-token-expiration": "24h",
		"shutdown-delay-duration": "0s", "shutdown-send-retry-after": "true", "shutdown-watch-termination-grace-period": "1s",
		"strict-transport-security-directives": "max-age=100", "tls-cert-file": f.in("apiserver.crt"), "tls-private-key-file": f.in("apiserver.key"),
		"tls-cipher-suites": "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", "tls-curve-preferences": fmt.Sprint(int(tls.X25519)), "tls-min-version": "VersionTLS12",
		"tls-sni-cert-key": f.in("apiserver.crt") + "," + f.in("apiserver.key") + ":a.example.com", "token-auth-file": f.file("tokens", "secret,jane,1\n"),
		"audit-policy-file": f.file("policy", "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: None}]\n"), "audit-log-path": filepath.Join(f.dir, "audit.log"),
		"audit-webhook-config-file": f.kubeconfig(), "audit-webhook-initial-backoff": "10s", "audit-log-compress": "false", "audit-log-format": "json",
		"audit-log-maxage": "1", "audit-log-maxbackup": "1", "audit-log-maxsize": "1", "audit-log-mode": "blocking", "audit-webhook-mode": "batch",
	}
	for _, backend := range []string{"audit-log", "audit-webhook"} {
		maps.Copy(flags, map[string]string{
			backend + "-batch-buffer-size": "100", backend + "-batch-max-size": "10", backend + "-batch-max-wait": "1s", backend + "-batch-throttle-burst": "5",
			backend + "-batch-throttle-enable": "true", backend + "-batch-throttle-qps": "5", backend + "-truncate-enabled": "true",
			backend + "-truncate-max-batch-size": "1000000", backend + "-truncate-max-event-size": "100000", backend + "-version": "audit.k8s.io/v1",
		})
	}
	return flags
}

// serveUntilReady runs a command line until the server is ready, stops the server, and returns its output.
func serveUntilReady(t *testing.T, args []string) string {
	t.Helper()
	var output lockedBuffer
	signals, ended := make(chan os.Signal, 1), make(chan int, 1)
	go func() { ended <- run(args, &output, &output, process{signals: signals}) }()
	timeout := time.After(time.Minute)
	poll := time.NewTicker(10 * time.Millisecond)
	defer poll.Stop()
	for !strings.Contains(output.String(), " serves the Kubernetes API ") {
		select {
		case code := <-ended:
			t.Fatalf("%q ended with %d:\n%s", args, code, output.String())
		case <-timeout:
			t.Fatalf("%q is not ready:\n%s", args, output.String())
		case <-poll.C:
		}
	}
	signals <- syscall.SIGTERM
	if code := <-ended; code != exitOK {
		t.Errorf("%q: exit code %d:\n%s", args, code, output.String())
	}
	return output.String()
}

// TestEveryFlag starts two servers that together set every flag of kube-apiserver, except for --version, which
// prints the version and exits.
func TestEveryFlag(t *testing.T) {
	t.Parallel()
	files := newFlagFiles(t)
	servers := map[string]map[string]string{"etcd": files.etcdFlags(), "embedded": files.embeddedFlags()}
	for _, row := range tableRows(upstreamFlags) {
		name := row[0]
		covered := name == "version"
		for _, flags := range servers {
			covered = covered || flags[name] != ""
		}
		if _, common := files.common()[name]; !covered && !common {
			t.Errorf("no server has the flag --%s", name)
		}
	}
	for server, flags := range servers {
		maps.Copy(flags, files.common())
		for _, command := range []string{"serve", kubeAPIServerName} {
			t.Run(server+"/"+command, func(t *testing.T) {
				var args []string
				for _, name := range slices.Sorted(maps.Keys(flags)) {
					args = append(args, "--"+name+"="+flags[name])
				}
				if server == "etcd" && command == "serve" {
					args = append(args, "--data-dir="+filepath.Join(t.TempDir(), "data"))
				}
				output := serveUntilReady(t, append([]string{command}, args...))
				for _, ignored := range ignoredFlags() {
					text := "--" + ignored.name
					if n := strings.Count(output, text+" ") + strings.Count(output, text+"\""); flags[ignored.name] != "" && n != 1 {
						t.Errorf("%d warnings about %s", n, text)
					}
				}
			})
		}
	}
}

// TestInvalidFlags checks the error messages for invalid values.
func TestInvalidFlags(t *testing.T) {
	t.Parallel()
	missing := filepath.Join(t.TempDir(), "missing")
	for flags, want := range map[string]string{
		"--storage-backend=etcd2":                                          "--storage-backend invalid, allowed values: etcd3. If not specified, it will default to 'etcd3'",
		"--storage-initialization-timeout=-1s":                             "--storage-initialization-timeout is -1s; it cannot be negative",
		"--delete-collection-workers=0":                                    `--delete-collection-workers is "0": it must be at least 1`,
		"--watch-cache-sizes=pods":                                         "invalid value of watch cache size: pods",
		"--watch-cache-sizes=pods#x":                                       "invalid size of watch cache size: pods#x",
		"--watch-cache-sizes=pods#-1":                                      "watch cache size cannot be negative: pods#-1",
		"--default-watch-cache-size=x":                                     `--default-watch-cache-size is "x"; it must be a number`,
		"--apiserver-count=0":                                              `--apiserver-count is "0": it must be a positive number`,
		"--log-flush-frequency=0s":                                         `--log-flush-frequency is "0s": it must be greater than zero`,
		"--log-text-info-buffer-size=x":                                    `--log-text-info-buffer-size is "x": it is not a size in bytes`,
		"--admission-control=Nope":                                         `--admission-control: there is no admission plugin "Nope"`,
		"--admission-control=Priority --enable-admission-plugins=Priority": "admission-control and enable-admission-plugins/disable-admission-plugins flags are mutually exclusive",
		"--external-hostname=https://a":                                    `--external-hostname is "https://a"; it must be a host name or IP address, optionally with a port`,
		"--kubernetes-service-node-port=70000":                             "--kubernetes-service-node-port is 70000; it must be 0 or within --service-node-port-range (30000-32767)",
		"--kubernetes-service-node-port=80":                                "it must be 0 or within --service-node-port-range (30000-32767)",
		"--control-plane-metrics=-1":                                       "--control-plane-metrics is -1; it cannot be negative",
		"--livez-grace-period=-1s":                                         "--livez-grace-period is -1s; it cannot be negative",
		"--shutdown-watch-termination-grace-period=-1s":                    "--shutdown-watch-termination-grace-period is -1s; it cannot be negative",
		"--max-connection-bytes-per-sec=-1":                                "--max-connection-bytes-per-sec is -1; it cannot be negative",
		"--coordinated-leadership-lease-duration=5s":                       "--coordinated-leadership-lease-duration is 5s; it must be greater than --coordinated-leadership-renew-deadline (10s)",
		"--coordinated-leadership-renew-deadline=1s":                       "--coordinated-leadership-renew-deadline is 1s; it must be greater than --coordinated-leadership-retry-period (2s)",
		"--coordinated-leadership-retry-period=x":                          "it must be a duration such as 30s or 5m",
		"--disabled-metrics=a-b":                                           `--disabled-metrics: "a-b" is not the name of a metric`,
		"--allow-metric-labels=a=b":                                        `--allow-metric-labels: "a" must have the form METRIC,LABEL`,
		"--allow-metric-labels-manifest=" + missing:                        "--allow-metric-labels-manifest: open " + missing,
		"--show-hidden-metrics-for-version=1.35":                           "must be omitted or have the value '1.36'; only the previous minor version is allowed",
		"--vmodule=a":                                                      `--vmodule is "a": "a" is not of the form PATTERN=N`,
		"--emulated-version=kube=1.32":                                     "version 1.32 cannot be emulated: choose a version from 1.33 to 1.37",
		"--emulated-version=2.33":                                          `"2.33" is not a version such as kube=1.37`,
		"--emulated-version=1.36 --feature-gates=EtcdRangeStream=true":     "feature is PreAlpha at emulated version 1.36",
		"--emulated-version=x=1.37":                                        `there is no component "x", only kube`,
		"--min-compatibility-version=1.38":                                 "it must be a version from 1.34 to 1.37",
		"--emulation-forward-compatible=x":                                 `--emulation-forward-compatible is "x"; it must be true or false`,
		"--enable-logs-handler=x":                                          "--enable-logs-handler",
		"--contention-profiling=x":                                         "--contention-profiling",
		"--backup-to=ftp://host/x":                                         `--backup-to: "ftp://host/x" is not a URL of a backup`,
		"--backup-to=s3://bucket --etcd-servers=http://127.0.0.1:1":        "--backup-to copies the store in --data-dir, and cannot be set with --etcd-servers",
		"--backup-to=file:///b --backup-retention=-1h":                     "--backup-interval, --backup-base-interval and --backup-retention cannot be negative",
		"--backup-encrypt-to=x":                                            `"x" are not recipients of age such as age1...`,
		"--endpoint-reconciler-type=x":                                     "--endpoint-reconciler-type=x is not supported",
	} {
		t.Run(flags, func(t *testing.T) {
			t.Parallel()
			var output lockedBuffer
			args := append([]string{"serve", "--secure-port=0", "--data-dir=" + t.TempDir()}, strings.Fields(flags)...)
			if code := run(args, &output, &output, process{signals: terminatedIf(true)}); code != exitUsage || !strings.Contains(output.String(), want) {
				t.Errorf("exit code %d, want %d with %q:\n%s", code, exitUsage, want, output.String())
			}
		})
	}
}

// TestDebugSocketErrors checks that the server does not start if the path of the debug socket is in use.
func TestDebugSocketErrors(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "s")
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	file := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{path: "another process serves the socket", file: "is not a socket", filepath.Join(file, "x"): "not a directory"} {
		var output lockedBuffer
		args := []string{"serve", "--secure-port=0", "--data-dir=" + t.TempDir(), "--debug-socket-path=" + path}
		if code := run(args, &output, &output, process{signals: terminatedIf(false)}); code != exitFailure || !strings.Contains(output.String(), want) {
			t.Errorf("%s: exit code %d:\n%s", path, code, output.String())
		}
	}
}
