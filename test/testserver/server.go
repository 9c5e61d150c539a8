package testserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// stopTimeout is the maximum time for a server to shut down after SIGTERM.
const stopTimeout = 30 * time.Second

// flagsEnv is an environment variable that contains flags for every server. The flags of the test follow these
// flags.
const flagsEnv = "MAINSTAY_TEST_FLAGS"

// Server is a mainstay process with a data directory. Stop, Kill, Start and Restart act on the process; the
// directory, the port and the credentials stay the same. Only RESTConfig, Kubeconfig, URL and Logs are safe for
// concurrent use.
type Server struct {
	binary  string
	options Options
	dir     string
	port    int
	log     Buffer // across restarts
	process *process
	config  *rest.Config // for the administrator of the server
	tenant  *rest.Config // for the administrator of the tests' control plane; nil if the tests use the root
}

// New starts a server and waits until it is ready. If the server does not become ready, New ends the test. The
// server is stopped when the test and its subtests have ended.
func New(t testing.TB, options Options) *Server {
	t.Helper()
	if options.Dir == "" {
		options.Dir = filepath.Join(t.TempDir(), "data")
	}
	binary, err := Binary()
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{binary: binary, options: options, dir: options.Dir}
	t.Cleanup(func() { s.finish(t) })
	if err := s.startOnFreePort(t.Context()); err != nil {
		t.Fatalf("%v\nserver log:\n%s", err, tail(s.log.String(), 100))
	}
	return s
}

// finish stops the server at the end of the test and checks its log.
func (s *Server) finish(t testing.TB) {
	if s.process != nil {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	}
	if t.Failed() {
		t.Logf("the last lines of the server's log:\n%s", tail(s.log.String(), 60))
	}
	if s.options.AllowPanics {
		return
	}
	for _, found := range Panics(s.log.String()) {
		t.Errorf("the server logged a panic:\n%s", found)
	}
}

// startOnFreePort starts the server on a free port. If a parallel test occupies the port first, it retries with
// another port.
func (s *Server) startOnFreePort(ctx context.Context) error {
	var errs []error
	for range 3 {
		port, err := freePort()
		if err != nil {
			return err
		}
		s.port = port
		err = s.Start(ctx)
		if err == nil {
			return nil
		}
		errs = append(errs, err)
		if !portTaken(port) {
			break
		}
	}
	return errors.Join(errs...)
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("find a free port: %w", err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

func portTaken(port int) bool {
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return true
	}
	l.Close()
	return false
}

// Start starts the server process after Stop or Kill, with the same directory and port, and waits until it is
// ready. If Start returns an error, the process does not run.
func (s *Server) Start(ctx context.Context) error {
	args := append([]string{
		"serve",
		"--data-dir=" + s.dir,
		"--secure-port=" + strconv.Itoa(s.port),
		"--bind-address=127.0.0.1",
	}, slices.Concat(strings.Fields(os.Getenv(flagsEnv)), s.options.Flags)...)
	cmd := exec.Command(s.binary, args...)
	logTo(cmd, &s.log)
	p, err := startProcess(cmd)
	if err != nil {
		return err
	}
	s.process = p
	err = s.awaitReady(ctx)
	if err == nil && InControlPlane() {
		err = s.enterControlPlane(ctx)
	}
	if err != nil {
		p.kill()
		s.process = nil
		return err
	}
	return nil
}

// awaitReady polls until the kubeconfig exists and /readyz returns 200.
func (s *Server) awaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.options.readyTimeout())
	defer cancel()
	poll := time.NewTicker(10 * time.Millisecond)
	defer poll.Stop()
	var last error
	for {
		if last = s.ready(ctx); last == nil {
			return nil
		}
		select {
		case <-s.process.exited:
			return fmt.Errorf("the server ended before it was ready (%v)", s.process.err)
		case <-ctx.Done():
			return fmt.Errorf("the server was not ready in time: %w", last)
		case <-poll.C:
		}
	}
}

// ready requests /readyz with the credentials of the kubeconfig. After the first success, it stores these
// credentials for the tests.
func (s *Server) ready(ctx context.Context) error {
	config := s.config
	if config == nil {
		var err error
		if config, err = clientcmd.BuildConfigFromFlags("", s.rootKubeconfig()); err != nil {
			return fmt.Errorf("read the kubeconfig: %w", err)
		}
		config.QPS = -1 // a test waits for the server, never for its own client
	}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.rootURL()+"/readyz", nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("/readyz answers %s", resp.Status)
	}
	s.config = config
	return nil
}

// Stop sends SIGTERM and waits until the process has exited. It returns an error unless the server drained and
// its exit code is 0. The process must be running.
func (s *Server) Stop() error {
	p := s.process
	s.process = nil
	return p.terminate(stopTimeout)
}

// Kill kills the process and waits until it has exited. The process must be running.
func (s *Server) Kill() {
	s.process.kill()
	s.process = nil
}

// Restart stops the server and starts it again with the same directory and port. It returns the errors of Stop
// and Start.
func (s *Server) Restart(ctx context.Context) error {
	if err := s.Stop(); err != nil {
		return err
	}
	return s.Start(ctx)
}

// RESTConfig returns a client configuration for the administrator, without client-side rate limits. Each call
// returns a new copy.
func (s *Server) RESTConfig() *rest.Config {
	if s.tenant != nil {
		return rest.CopyConfig(s.tenant)
	}
	return rest.CopyConfig(s.config)
}

// Kubeconfig returns the path of the administrator's kubeconfig file.
func (s *Server) Kubeconfig() string {
	if s.tenant != nil {
		return s.tenantKubeconfig()
	}
	return s.rootKubeconfig()
}

func (s *Server) rootKubeconfig() string { return filepath.Join(s.dir, "admin.kubeconfig") }

// Dir returns the server's data directory.
func (s *Server) Dir() string { return s.dir }

// URL returns the base URL of the API.
func (s *Server) URL() string {
	if s.tenant != nil {
		return s.tenant.Host
	}
	return s.rootURL()
}

func (s *Server) rootURL() string { return "https://127.0.0.1:" + strconv.Itoa(s.port) }

// Logs returns everything that the server has written to both output streams so far, including before restarts.
func (s *Server) Logs() string { return s.log.String() }
