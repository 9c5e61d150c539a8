package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"mainstay.dev/mainstay/internal/controlplane"
	"mainstay.dev/mainstay/internal/feature"
	"mainstay.dev/mainstay/test/testserver"
)

func TestMain(m *testing.M) { os.Exit(testserver.Main(m)) }

// TestCommandLine runs commands that exit without serving.
func TestCommandLine(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte("nonsense"), 0o600); err != nil {
		t.Fatal(err)
	}
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { taken.Close() })
	_, takenPort, err := net.SplitHostPort(taken.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	inDir := func(args ...string) []string {
		return append([]string{"serve", "--data-dir=" + t.TempDir(), "--secure-port=0"}, args...)
	}
	tests := []struct {
		name   string
		args   []string
		code   int
		stdout []string
		stderr []string
	}{
		{"help", []string{}, 0, []string{"Available Commands:", "serve", "completion"}, nil},
		{"version", []string{"version"}, 0, []string{"mainstay " + version, "Kubernetes API " + controlplane.KubernetesVersion()}, nil},
		{"version as a flag", []string{"serve", "--version"}, 0, []string{"mainstay " + version}, nil},
		{"version of the program", []string{"--version"}, 0, []string{"mainstay " + version, "Kubernetes API " + controlplane.KubernetesVersion()}, nil},
		{"plugin with a disabled gate", []string{"admission", "--feature-gates=MutatingAdmissionPolicy=false"}, 0, []string{"no (feature gate MutatingAdmissionPolicy)"}, nil},
		{"a kubeconfig without a server", []string{"kubeconfig", "--user=jane", "--data-dir=nowhere"}, 1, nil, []string{"--data-dir", "--kubeconfig or $KUBECONFIG"}},
		{"routes", []string{"routes"}, 0, []string{"get", "/readyz"}, nil},
		{"completion", []string{"completion", "bash"}, 0, []string{"mainstay"}, nil},
		{"help of serve", []string{"serve", "--help"}, 0, []string{"Storage:", "--data-dir", `"./mainstay-data")`, "Shutdown:", "--secure-port"}, nil},
		{"unknown command", []string{"serv"}, 2, nil, []string{`unknown command "serv"; did you mean "mainstay serve"?`, `See "mainstay --help"`}},
		{"a suggestion for two reasons", []string{"server"}, 2, nil, []string{"did you mean \"mainstay serve\"?\n"}},
		{"a command of other programs", []string{"start"}, 2, nil, []string{`unknown command "start"; did you mean "mainstay serve"?`}},
		{"no similar command", []string{"frobnicate"}, 2, nil, []string{"mainstay: unknown command \"frobnicate\"\n"}},
		{"unknown subcommand", []string{"snapshot", "sav", "x"}, 2, nil, []string{`unknown command "sav"; did you mean "mainstay snapshot save"?`}},
		{"argument", []string{"serve", "now"}, 2, nil, []string{`mainstay serve accepts no arguments, but got "now"`}},
		{"unknown flag", []string{"serve", "--nope"}, 2, nil, []string{"unknown flag: --nope", `See "mainstay serve --help"`}},
		{"underscores", inDir("--goaway_chance=1"), 2, nil, []string{"--goaway-chance is 1"}},
		{"tracing without a configuration", inDir("--tracing-config-file=nope"), 1, nil, []string{"--tracing-config-file: read the tracing configuration: open nope"}},
		{"flow control without seats", inDir("--max-requests-inflight=0", "--max-mutating-requests-inflight=0"), 2, nil, []string{"--max-requests-inflight=0 and --max-mutating-requests-inflight=0 must add up to something positive"}},
		{"invalid seconds", inDir("--default-not-ready-toleration-seconds=5m"), 2, nil, []string{"it must be a number of seconds"}},
		{"missing admission configuration", inDir("--admission-control-config-file=nope"), 2, nil, []string{"--admission-control-config-file: read the admission configuration: open nope"}},
		{"unknown admission plugins", inDir("--enable-admission-plugins=Nope", "--disable-admission-plugins=Nope2"), 2, nil, []string{`--enable-admission-plugins: there is no admission plugin "Nope"`, `--disable-admission-plugins: there is no admission plugin "Nope2"`}},
		{"admission plugin enabled and disabled", inDir("--enable-admission-plugins=Priority", "--disable-admission-plugins=Priority"), 2, nil, []string{"both name Priority"}},
		{"unknown controller for envtest", []string{"envtest-assets", "--controllers=nope", t.TempDir()}, 2, nil, []string{`--controllers: there is no controller "nope" in this server`}},
		{"unknown controller", inDir("--controllers=*,-nope"), 2, nil, []string{`--controllers: there is no controller "-nope" in this server`}},
		{"authorization mode without its file", inDir("--authorization-mode=Node,Webhook"), 2, nil, []string{"--authorization-mode=Webhook needs --authorization-webhook-config-file"}},
		{"unknown authorization mode", inDir("--authorization-mode=Nope"), 2, nil, []string{`--authorization-mode: "Nope" is not a valid mode; there are ABAC, AlwaysAllow, AlwaysDeny, Node, RBAC, Webhook`}},
		{"conflicting authorization flags", inDir("--authorization-mode=Node", "--authorization-config=x"), 2, nil, []string{"--authorization-config can not be specified when --authorization-mode or --authorization-webhook-* flags are defined"}},
		{"policy file without ABAC", inDir("--authorization-policy-file=x"), 2, nil, []string{"cannot specify --authorization-policy-file without --authorization-mode=ABAC"}},
		{"unknown feature gate", inDir("--feature-gates=Nope=true"), 2, nil, []string{"mainstay: --feature-gates: unrecognized feature gate: Nope\n"}},
		{"locked feature gate", inDir("--feature-gates=WatchList=false", "--feature-gates=JobManagedBy=false"), 2, nil,
			[]string{"mainstay: --feature-gates: cannot set feature gate JobManagedBy to false, feature is locked to true\n"}},
		{"feature gate without a value", inDir("--feature-gates=WatchList"), 2, nil, []string{`--feature-gates is "WatchList": missing bool value for WatchList`}},
		{"feature gate without its dependency", inDir("--feature-gates=GangScheduling=true"), 2, nil, []string{"depends on features that are disabled: [GenericWorkload]"}},
		{"unknown API group", inDir("--runtime-config=nope/v1=true"), 2, nil, []string{"mainstay: --runtime-config: unknown api groups nope/v1\n"}},
		{"unknown API version", inDir("--runtime-config=api/all", "--runtime-config=apps/v9"), 2, nil,
			[]string{"--runtime-config: invalid value api/all=\n", "group version apps/v9 that has not been registered"}},
		{"unsupported encoding", inDir("--storage-media-type=application/json"), 2, nil, []string{"application/json is not supported yet"}},
		{"invalid address", inDir("--bind-address=nope"), 2, nil, []string{"--bind-address", "not an IP address"}},
		{"invalid GOAWAY chance", inDir("--goaway-chance=1"), 2, nil, []string{"--goaway-chance is 1"}},
		{"invalid port", inDir("--secure-port=abc"), 2, nil, []string{`--secure-port is "abc": it must be a port: a number from 1 to 65535, or 0 for a free port`}},
		{"port out of range", inDir("--secure-port=65536"), 2, nil, []string{`--secure-port is "65536": it must be a port`}},
		{"negative port", inDir("--secure-port=-1"), 2, nil, []string{`--secure-port is "-1": it must be a port`}},
		{"invalid duration", inDir("--event-ttl=abc"), 2, nil, []string{"mainstay: --event-ttl is \"abc\"; it must be a duration such as 30s or 5m\n"}},
		{"invalid number", inDir("--goaway-chance=abc"), 2, nil, []string{"mainstay: --goaway-chance is \"abc\"; it must be a number\n"}},
		{"invalid verbosity", inDir("-v=abc"), 2, nil, []string{"mainstay: --v is \"abc\"; it must be a number\n"}},
		{"invalid boolean", inDir("--watch-cache=abc"), 2, nil, []string{"mainstay: --watch-cache is \"abc\"; it must be true or false\n"}},
		{"invalid IP range", inDir("--service-cluster-ip-range=10.0.0.0"), 2, nil, []string{"not a CIDR"}},
		{"unknown cipher suite", inDir("--tls-cipher-suites=ROT13"), 2, nil, []string{"Cipher suite ROT13 not supported or doesn't exist"}},
		{"unknown TLS version", inDir("--tls-min-version=1.2"), 2, nil, []string{`unknown tls version "1.2"; it must be one of VersionTLS10`}},
		{"unknown curve", inDir("--tls-curve-preferences=1"), 2, nil, []string{"curve preference 1 is not supported by the current Go version"}},
		{"curve out of range", inDir("--tls-curve-preferences=70000"), 2, nil, []string{"curve preference 70000 is out of range (must be 1-65535)"}},
		{"duplicate curve", inDir("--tls-curve-preferences=29,29"), 2, nil, []string{"duplicate curve preference 29"}},
		{"SNI certificate without names", inDir("--tls-sni-cert-key=c,k:"), 2, nil, []string{"empty names list is not allowed"}},
		{"SNI certificate without key", inDir("--tls-sni-cert-key=c"), 2, nil, []string{"expected comma separated certificate and key file paths"}},
		{"certificate without key", inDir("--tls-cert-file=x"), 2, nil, []string{"--tls-cert-file and --tls-private-key-file must be given together"}},
		{"negative limit", inDir("--max-requests-inflight=-1"), 2, nil, []string{"cannot be negative"}},
		{"etcd without a scheme", inDir("--etcd-servers=127.0.0.1:2379"), 2, nil, []string{`--etcd-servers: "127.0.0.1:2379" is not a URL`}},
		{"etcd with another scheme", inDir("--etcd-servers=ftp://127.0.0.1:2379"), 2, nil, []string{`--etcd-servers: ftp://127.0.0.1:2379: there is no storage backend with the scheme "ftp"`}},
		{"the embedded store as etcd", inDir("--etcd-servers=memory:"), 2, nil, []string{`--etcd-servers: "memory:" selects the store of --data-dir`}},
		{"overrides without etcd", inDir("--etcd-servers-overrides=/events#http://127.0.0.1:1"), 2, nil, []string{"need --etcd-servers"}},
		{"invalid overrides", inDir("--etcd-servers=http://127.0.0.1:1", "--etcd-servers-overrides=events#http://127.0.0.1:1,/services#http://127.0.0.1:1,/events#x"), 2, nil,
			[]string{"must be of format: group/resource#servers", "services cannot have a separate store", `"x" is not a URL`}},
		{"etcd CA without etcd", inDir("--etcd-cafile=x"), 2, nil, []string{"need --etcd-servers"}},
		{"unknown log format", inDir("--logging-format=xml"), 2, nil, []string{`log format "xml" is not known`}},
		{"invalid audit policy", inDir("--audit-policy-file="+file, "--audit-log-path=-"), 1, nil, []string{"loading audit policy file: failed decoding: ", ": from file " + file + "\n"}},
		{"invalid audit mode", inDir("--audit-log-mode=x", "--audit-log-path=-"), 2, nil, []string{`invalid audit log mode x, allowed modes are "batch,blocking,blocking-strict"`}},
		{"port in use", []string{"serve", "--data-dir=" + t.TempDir(), "--secure-port=" + takenPort}, 1, nil,
			[]string{"listen on 127.0.0.1:" + takenPort + ": the port is in use by another process; stop it, or choose another port with --secure-port"}},
		{"not an address of this machine", []string{"serve", "--data-dir=" + t.TempDir(), "--bind-address=192.0.2.1"}, 1, nil, []string{"this machine does not have that address"}},
		{"data directory is a file", []string{"serve", "--data-dir=" + file, "--secure-port=0"}, 1, nil, []string{"data directory", "not a directory", "--data-dir"}},
		{"data directory below a file", []string{"serve", "--data-dir=" + filepath.Join(file, "x"), "--secure-port=0"}, 1, nil, []string{"data directory", "--data-dir"}},
		{"invalid client CA", inDir("--client-ca-file=" + file), 1, nil, []string{"--client-ca-file", "contains no PEM certificate"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var stdout, stderr bytes.Buffer
			code := run(tt.args, &stdout, &stderr, process{signals: terminatedIf(tt.code != 1)})
			if code != tt.code {
				t.Errorf("exit code %d, want %d", code, tt.code)
			}
			for _, want := range tt.stdout {
				if !strings.Contains(stdout.String(), want) {
					t.Errorf("stdout does not contain %q:\n%s", want, stdout.String())
				}
			}
			for _, want := range tt.stderr {
				if !strings.Contains(stderr.String(), want) {
					t.Errorf("stderr does not contain %q:\n%s", want, stderr.String())
				}
			}
		})
	}
}

// terminatedIf returns a channel that receives a stop signal, immediately if now is true, otherwise after 20
// seconds. The late signal stops a server that starts although the test expects an error.
func terminatedIf(now bool) <-chan os.Signal {
	signals := make(chan os.Signal, 1)
	if now {
		signals <- syscall.SIGTERM
	} else {
		time.AfterFunc(20*time.Second, func() { signals <- syscall.SIGTERM })
	}
	return signals
}

// TestUpstreamFlags checks that every flag of kube-apiserver is accepted.
func TestUpstreamFlags(t *testing.T) {
	t.Parallel()
	flags := newServe(process{}).Flags()
	rows := tableRows(upstreamFlags)
	if len(rows) < 150 {
		t.Errorf("the table holds %d flags", len(rows))
	}
	for _, row := range rows {
		if len(row) != 3 {
			t.Errorf("the table holds %q", row)
		} else if flags.Lookup(row[0]) == nil {
			t.Errorf("--%s is not known", row[0])
		}
	}
}

// TestGates checks that kube-apiserver's feature gates are accepted, including if the flag is repeated.
func TestGates(t *testing.T) {
	t.Parallel()
	var all []string
	for spec := range feature.Known() {
		all = append(all, fmt.Sprintf("%s=%t", spec.Gate, spec.Default))
	}
	flags := newServeFlags()
	flags.addTo(pflag.NewFlagSet("serve", pflag.ContinueOnError))
	for _, value := range []string{"", "CBORServingAndStorage=false", strings.Join(all, ","), "kube:WatchList=false"} {
		if err := flags.all.Set("feature-gates", value); err != nil {
			t.Errorf("set feature gates %q: %v", value, err)
		}
	}
	if err := flags.config.ControlPlane.WithDefaults().Check(); err != nil {
		t.Error(err)
	}
	if on := flags.config.ControlPlane.Gates(); on.Enabled("WatchList") || !on.Enabled("OpenAPIEnums") {
		t.Errorf("WatchList is %t, OpenAPIEnums is %t", on.Enabled("WatchList"), on.Enabled("OpenAPIEnums"))
	}
}

// TestFlagsReachTheConfig checks the configuration fields that flags set.
func TestFlagsReachTheConfig(t *testing.T) {
	t.Parallel()
	flags := newServeFlags()
	flags.addTo(pflag.NewFlagSet("serve", pflag.ContinueOnError))
	err := flags.all.Parse([]string{
		"--data-dir=/d", "--bind-address=::1", "--secure-port=7", "--max-requests-inflight=0", "--max-mutating-requests-inflight=5",
		"--min-request-timeout=60", "--anonymous-auth=false", "--allow-privileged=false", "--profiling=false", "--watch-cache=false", "--service-cluster-ip-range=10.96.0.0/12,fd00::/108",
		"--tls-min-version=VersionTLS13", "--tls-cipher-suites=TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305", "--tls-curve-preferences=29,4588", "--tls-sni-cert-key=c,k:a,*.b", "--tls-sni-cert-key=d,l",
		"--enable-priority-and-fairness=false", "--storage-media-type=application/vnd.kubernetes.protobuf", "-v=4", "--history-retention=1h", "--cache-memory-limit=1Gi", "--storage-quota=1Gi", "--http2-server=net/http",
	})
	if err != nil {
		t.Fatal(err)
	}
	c := flags.config
	api, requests, tls := c.ControlPlane, c.ControlPlane.Requests, c.TLS
	got := fmt.Sprint(c.Storage.DataDir, c.Listen.BindAddress, c.Listen.SecurePort, requests.MaxInFlight, requests.MaxMutatingInFlight, requests.DisablePriorityAndFairness, requests.MinTimeout,
		api.Authentication.DisableAnonymousAuth, api.Admission.DenyPrivileged, c.Debug.DisableProfiling, c.Storage.DisableWatchCache, api.Services.ClusterIPRange,
		tls.MinVersion, tls.CipherSuites, tls.CurvePreferences, tls.SNI, flags.log.Verbosity, c.Storage.Embedded.HistoryRetention, c.Limits.CacheMemory, c.Storage.Embedded.Quota, c.Listen.HTTP2Server)
	want := "/d::1 7 -1 5 true 1m0s true true true true [10.96.0.0/12 fd00::/108] 772 [49199 52392] [X25519 X25519MLKEM768] [{c k [a *.b]} {d l []}] 4 1h0m0s 1073741824 1073741824net/http"
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// TestServe checks the files, the output and the log of a server.
func TestServe(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "it's data")
	s := testserver.New(t, testserver.Options{Dir: dir, Flags: []string{"--logging-format=json", "-v=3"}})
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	var plain []string
	seen := map[string]bool{}
	for line := range strings.Lines(s.Logs()) {
		var entry struct{ Msg, URL, URI, Verb string }
		if json.Unmarshal([]byte(line), &entry) != nil {
			plain = append(plain, line)
		}
		seen[entry.Msg] = true
	}
	want := []string{
		"Mainstay " + version + " serves the Kubernetes API " + controlplane.KubernetesVersion() + " at " + s.URL() + "\n",
		"To use it:  export KUBECONFIG='" + strings.ReplaceAll(s.Kubeconfig(), "'", `'\''`) + "'\n",
	}
	if !slices.Equal(plain, want) {
		t.Errorf("it printed %q, want %q", plain, want)
	}
	for _, msg := range []string{"serving", "HTTP", "stopping", "stopped"} {
		if !seen[msg] {
			t.Errorf("the log does not contain %q:\n%s", msg, s.Logs())
		}
	}
	if runtime.GOOS == "windows" {
		return
	}
	for path, mode := range map[string]os.FileMode{dir: 0o700, s.Kubeconfig(): 0o600, filepath.Join(dir, "pki"): 0o700, filepath.Join(dir, "store"): 0o700} {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != mode {
			t.Errorf("%s has mode %o, want %o", path, info.Mode().Perm(), mode)
		}
	}
}

// TestSecondProcess checks that only one process can use a data directory, and that the directory can be used
// again after this process was killed.
func TestSecondProcess(t *testing.T) {
	t.Parallel()
	s := testserver.New(t, testserver.Options{})
	var stderr bytes.Buffer
	code := run([]string{"serve", "--data-dir=" + s.Dir(), "--secure-port=0"}, io.Discard, &stderr, process{signals: terminatedIf(true)})
	if code != 1 || !strings.Contains(stderr.String(), "data directory is in use: "+s.Dir()+" belongs to process ") {
		t.Errorf("exit code %d: %s", code, stderr.String())
	}
	s.Kill()
	if err := s.Start(t.Context()); err != nil {
		t.Errorf("after a kill: %v", err)
	}
}

// TestTakenPort checks that a server that cannot start because its port is in use leaves no files.
func TestTakenPort(t *testing.T) {
	t.Parallel()
	s := testserver.New(t, testserver.Options{})
	taken := "--secure-port=" + s.URL()[strings.LastIndex(s.URL(), ":")+1:]
	dir := filepath.Join(t.TempDir(), "data")
	var stderr bytes.Buffer
	if code := run([]string{"serve", "--data-dir=" + dir, taken}, io.Discard, &stderr, process{signals: terminatedIf(true)}); code != 1 {
		t.Errorf("exit code %d: %s", code, stderr.String())
	}
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the data directory exists: %v", err)
	}
	// If the same server is started twice, the error mentions both the port and the data directory.
	stderr.Reset()
	code := run([]string{"serve", "--data-dir=" + s.Dir(), taken}, io.Discard, &stderr, process{signals: terminatedIf(true)})
	if text := stderr.String(); code != 1 || !strings.Contains(text, "the port is in use") || !strings.Contains(text, "data directory is in use") {
		t.Errorf("exit code %d: %s", code, text)
	}
}

// TestAnyPort checks that port 0 selects a free port, and that the server prints the port and writes it to the
// kubeconfig.
func TestAnyPort(t *testing.T) {
	t.Parallel()
	binary, err := testserver.Binary()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	cmd := exec.Command(binary, "serve", "--data-dir="+dir, "--secure-port=0")
	output, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	first, err := bufio.NewReader(output).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", filepath.Join(dir, "admin.kubeconfig"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasSuffix(first, " at "+config.Host+"\n") || strings.HasSuffix(config.Host, ":0") {
		t.Errorf("stdout has %q, the kubeconfig %q", first, config.Host)
	}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := client.Get(config.Host + "/readyz")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Errorf("/readyz returned %s", resp.Status)
	}
}

// TestSignals checks that the first signal starts a graceful stop, and that the second signal stops the server
// immediately.
func TestSignals(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("this operating system does not have these signals")
	}
	binary, err := testserver.Binary()
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := listener.Addr().(*net.TCPAddr).Port
	listener.Close()
	cmd := exec.Command(binary, "serve", "--data-dir="+t.TempDir(), "--secure-port="+strconv.Itoa(port), "--shutdown-delay-duration=1h")
	output, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	watchdog := time.AfterFunc(time.Minute, func() { cmd.Process.Kill() })
	defer watchdog.Stop()
	for _, msg := range []string{"msg=serving", "msg=stopping"} {
		awaitLine(t, output, msg)
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
	}
	rest, err := io.ReadAll(output)
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); cmd.ProcessState.ExitCode() != 1 || !strings.Contains(string(rest), "a second signal") {
		t.Errorf("exit: %v; stderr: %q", err, rest)
	}
}

// awaitLine reads until it has read a line that contains text.
func awaitLine(t *testing.T, r io.Reader, text string) {
	t.Helper()
	var line []byte
	for b := make([]byte, 1); ; {
		if _, err := r.Read(b); err != nil {
			t.Fatalf("the output ended before %q: %v", text, err)
		}
		if line = append(line, b[0]); b[0] == '\n' {
			if strings.Contains(string(line), text) {
				return
			}
			line = line[:0]
		}
	}
}
