package etcdtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"
)

// etcdBinary returns the path of the etcd server. It builds the server unless the build cache of the
// go command contains it.
var etcdBinary = sync.OnceValues(func() (string, error) {
	root, err := goOutput("list", "-m", "-f", "{{.Dir}}", "mainstay.dev/mainstay")
	if err != nil {
		return "", fmt.Errorf("find the module: %w", err)
	}
	binary, err := goOutput("-C", filepath.Join(root, "test", "tools"), "tool", "-n", "go.etcd.io/etcd/server/v3")
	if err != nil {
		return "", fmt.Errorf("build etcd: %w", err)
	}
	return binary, nil
})

// goOutput returns the output of the go command without the final newline.
func goOutput(args ...string) (string, error) {
	out, err := exec.Command("go", args...).Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return "", fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, exit.Stderr)
	}
	return strings.TrimSpace(string(out)), err
}

// stopTimeout is the time after which a process that ignores the stop signal is killed.
const stopTimeout = 20 * time.Second

// process is one run of etcd.
type process struct {
	cmd    *exec.Cmd
	output lockedBuffer
	// running ends when the process exits; err is then the result of Wait.
	running context.Context
	err     error
}

// startProcess starts etcd. One goroutine, which is locked to its thread, starts the process and waits
// for it: on Linux, the kernel kills the child when the thread ends, so that no etcd outlives an aborted test
// run.
func startProcess(binary string, flags []string) (*process, error) {
	running, ended := context.WithCancel(context.Background())
	p := &process{cmd: exec.Command(binary, flags...), running: running}
	p.cmd.Stdout, p.cmd.Stderr = &p.output, &p.output
	for _, variable := range os.Environ() {
		if !strings.HasPrefix(variable, "ETCD_") { // etcd reads such variables as flags
			p.cmd.Env = append(p.cmd.Env, variable)
		}
	}
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		dieWithParent(p.cmd)
		err := p.cmd.Start()
		started <- err
		if err == nil {
			p.err = p.cmd.Wait()
		}
		ended()
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start etcd: %w", err)
	}
	return p, nil
}

// stop sends the process a termination signal, and kills it after stopTimeout.
func (p *process) stop() {
	if p.cmd.Process.Signal(syscall.SIGTERM) == nil {
		select {
		case <-p.running.Done():
			return
		case <-time.After(stopTimeout):
		}
	}
	_ = p.cmd.Process.Kill()
	<-p.running.Done()
}

// lockedBuffer is a buffer that is safe for concurrent use.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(data []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(data)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}
