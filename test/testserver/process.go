package testserver

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// process is one run of the binary.
type process struct {
	cmd    *exec.Cmd
	exited chan struct{} // closed once the process has ended
	err    error         // result of Wait; valid after exited is closed
}

// startProcess starts the command. One goroutine, locked to its thread, starts the process and waits for it. On
// Linux, the kernel kills the process when the thread that started it ends, so that no server outlives an
// aborted test run.
func startProcess(cmd *exec.Cmd) (*process, error) {
	p := &process{cmd: cmd, exited: make(chan struct{})}
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		dieWithParent(cmd)
		err := cmd.Start()
		started <- err
		if err == nil {
			p.err = cmd.Wait()
		}
		close(p.exited)
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", cmd.Path, err)
	}
	return p, nil
}

// terminate sends SIGTERM to the process and waits until it exits. After the timeout, it kills the process and
// returns an error.
func (p *process) terminate(timeout time.Duration) error {
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("send SIGTERM: %w", err)
	}
	select {
	case <-p.exited:
	case <-time.After(timeout):
		p.kill()
		return fmt.Errorf("the server was still running %s after SIGTERM", timeout)
	}
	if p.err != nil {
		return fmt.Errorf("the server ended with %w, not with exit code 0", p.err)
	}
	return nil
}

// kill kills the process with SIGKILL and waits until it has exited.
func (p *process) kill() {
	p.cmd.Process.Kill()
	<-p.exited
}
