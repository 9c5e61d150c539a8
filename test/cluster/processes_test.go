package cluster

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"mainstay.dev/mainstay/test/testserver"
)

func TestMain(m *testing.M) { os.Exit(testserver.Main(m)) }

// programsEnv is the environment variable that names the folder with kube-controller-manager and
// kube-scheduler.
const programsEnv = "MAINSTAY_KUBERNETES_BINARIES"

// policy is an audit policy that logs all completed requests.
const policy = `{"apiVersion":"audit.k8s.io/v1","kind":"Policy","omitStages":["RequestReceived","ResponseStarted"],"rules":[{"level":"Metadata"}]}`

// site is a server together with the other programs of its control plane.
type site struct {
	t        *testing.T
	server   *testserver.Server
	programs string
	dir      string // data directory of the server
	work     string // all other files
}

func newSite(t *testing.T, controllers string) *site {
	t.Helper()
	programs := os.Getenv(programsEnv)
	if programs == "" {
		t.Skipf("%s does not name a folder with kube-controller-manager and kube-scheduler of a Kubernetes release", programsEnv)
	}
	s := &site{t: t, programs: programs, work: t.TempDir()}
	s.dir = filepath.Join(s.work, "data")
	policyFile := filepath.Join(s.work, "policy.json")
	if err := os.WriteFile(policyFile, []byte(policy), 0o600); err != nil {
		t.Fatal(err)
	}
	s.server = testserver.New(t, testserver.Options{Dir: s.dir, Flags: []string{
		"--controllers=" + controllers, "--audit-policy-file=" + policyFile, "--audit-log-path=" + s.auditLog(), "--audit-log-mode=blocking-strict",
	}})
	return s
}

func (s *site) auditLog() string { return filepath.Join(s.work, "audit.log") }

// program is a running kube-controller-manager or kube-scheduler.
type program struct {
	t   *testing.T
	cmd *exec.Cmd
	log testserver.Buffer
}

// start starts a program with its own user and the flags that kubeadm sets.
func (s *site) start(name string, flags ...string) *program {
	s.t.Helper()
	kubeconfig := filepath.Join(s.work, name+".kubeconfig")
	mainstay, err := testserver.Binary()
	if err != nil {
		s.t.Fatal(err)
	}
	if out, err := exec.Command(mainstay, "kubeconfig", "--data-dir="+s.dir, "--user=system:"+name, "--output="+kubeconfig).CombinedOutput(); err != nil {
		s.t.Fatalf("make a kubeconfig: %v\n%s", err, out)
	}
	p := &program{t: s.t, cmd: exec.Command(filepath.Join(s.programs, name), append([]string{
		"--kubeconfig=" + kubeconfig, "--authentication-kubeconfig=" + kubeconfig, "--authorization-kubeconfig=" + kubeconfig,
		"--bind-address=127.0.0.1", "--secure-port=0", "--leader-elect=true",
	}, flags...)...)}
	p.cmd.Stdout, p.cmd.Stderr = &p.log, &p.log
	if err := p.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(p.stop)
	return p
}

func (s *site) startControllerManager(controllers string) *program {
	s.t.Helper()
	pki := filepath.Join(s.dir, "pki")
	authority, key := filepath.Join(pki, "ca.crt"), filepath.Join(pki, "ca.key")
	return s.start("kube-controller-manager",
		"--controllers="+controllers, "--use-service-account-credentials=true",
		"--client-ca-file="+authority, "--root-ca-file="+authority, "--service-account-private-key-file="+filepath.Join(pki, "sa.key"),
		"--cluster-signing-cert-file="+authority, "--cluster-signing-key-file="+key,
		"--cluster-name=kubernetes", "--allocate-node-cidrs=true", "--cluster-cidr=10.244.0.0/16", "--service-cluster-ip-range=10.0.0.0/24",
	)
}

// stop stops the program with SIGTERM and checks its log.
func (p *program) stop() {
	if p.cmd.ProcessState != nil {
		return
	}
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	timer := time.AfterFunc(30*time.Second, func() { _ = p.cmd.Process.Kill() })
	_ = p.cmd.Wait()
	timer.Stop()
	for _, found := range testserver.Panics(p.log.String()) {
		p.t.Errorf("%s panicked:\n%s", p.cmd.Path, found)
	}
	if errs := p.errors(); len(errs) > 0 {
		p.t.Logf("%s logged %d errors, at last\n%s", p.cmd.Path, len(errs), strings.Join(errs[max(0, len(errs)-20):], "\n"))
	}
}

// errors returns the lines of the program's log that report errors.
func (p *program) errors() []string {
	var errs []string
	for line := range strings.Lines(p.log.String()) {
		if len(line) > 4 && line[0] == 'E' && line[1] >= '0' && line[1] <= '9' {
			errs = append(errs, strings.TrimSpace(line))
		}
	}
	return errs
}

// awaitLog waits until the server has logged a text n times.
func (s *site) awaitLog(what string, n int) {
	s.t.Helper()
	testserver.Eventually(s.t, 2*time.Minute, func() error {
		if got := strings.Count(s.server.Logs(), what); got < n {
			return fmt.Errorf("the server has logged %q %d times, want %d", what, got, n)
		}
		return nil
	})
}
