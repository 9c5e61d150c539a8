package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	// startTimeout is the maximum time for a server to become ready. stopTimeout is the maximum time for it to
	// stop.
	startTimeout = 5 * time.Minute
	stopTimeout  = time.Minute
)

// server is a mainstay process that can be restarted with the same data directory and port.
type server struct {
	binary, dir string
	port        int
	flags       []string
	// under is a wrapper command that runs the server as its child. If it is nil, the server runs directly.
	under []string

	cmd *exec.Cmd
	// away counts the starts and the ends of restarts, so it is odd during a restart.
	away atomic.Int64
	// back is the time at which the last restart ended, in Unix nanoseconds.
	back atomic.Int64
}

// newServer returns a server that has not been started.
func newServer(binary, dir string, flags ...string) (*server, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("find a free port: %w", err)
	}
	defer listener.Close()
	return &server{binary: binary, dir: dir, port: listener.Addr().(*net.TCPAddr).Port, flags: flags}, nil
}

func (s *server) kubeconfig() string { return filepath.Join(s.dir, "admin.kubeconfig") }

// start starts the server, waits until it is ready, and returns the elapsed time.
func (s *server) start(ctx context.Context) (time.Duration, error) {
	began := time.Now()
	log, err := os.OpenFile(s.dir+".log", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return 0, fmt.Errorf("open the server's log: %w", err)
	}
	defer log.Close()
	args := slices.Concat(s.under, []string{s.binary, "serve", "--data-dir=" + s.dir, "--secure-port=" + strconv.Itoa(s.port)}, s.flags)
	s.cmd = exec.Command(args[0], args[1:]...)
	s.cmd.Stdout, s.cmd.Stderr = log, log
	if err := s.cmd.Start(); err != nil {
		return 0, fmt.Errorf("start the server: %w", err)
	}
	if err := s.awaitReady(ctx); err != nil {
		s.kill()
		return 0, err
	}
	return time.Since(began), nil
}

// awaitReady waits until /readyz returns 200.
func (s *server) awaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for {
		c, err := newClient(s.kubeconfig())
		if err == nil {
			_, err = c.get(ctx, "/readyz")
			c.close()
		}
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("the server is not ready: %w; see %s.log", err, s.dir)
		}
		pause(ctx, 20*time.Millisecond)
	}
}

// stop sends SIGTERM and waits until the process has exited.
func (s *server) stop() error {
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return fmt.Errorf("send SIGTERM: %w", err)
	}
	late := time.AfterFunc(stopTimeout, func() { s.cmd.Process.Kill() })
	defer late.Stop()
	if err := s.cmd.Wait(); err != nil {
		return fmt.Errorf("the server did not end well: %w", err)
	}
	return nil
}

// kill sends SIGKILL and waits until the process has exited.
func (s *server) kill() {
	s.cmd.Process.Kill()
	_ = s.cmd.Wait() // returns the error of a killed process
}

// restart stops the server and starts it again. If hard is true, it uses SIGKILL instead of SIGTERM.
func (s *server) restart(ctx context.Context, hard bool) error {
	s.away.Add(1)
	if hard {
		s.kill()
	} else if err := s.stop(); err != nil {
		return err
	}
	if _, err := s.start(ctx); err != nil {
		return err
	}
	s.back.Store(time.Now().UnixNano())
	s.away.Add(1)
	return nil
}

// settling is how long after a restart requests on older connections may fail.
const settling = 5 * time.Second

// excuses reports whether a restart explains the failure of a request. away is the value that s.away had when
// the request started.
func (s *server) excuses(away int64, err error) bool {
	restarted := away%2 == 1 || s.away.Load() != away || time.Since(time.Unix(0, s.back.Load())) < settling
	var answered *statusError
	if errors.As(err, &answered) {
		return restarted && answered.unavailable()
	}
	return restarted
}
