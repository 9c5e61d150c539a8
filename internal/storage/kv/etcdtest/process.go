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

// etcdBinary builds etcd's server, unless the go command has it, and returns the
// path of the program.
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

// stopPatience is how long a member may take to stop in good order.
const stopPatience = 20 * time.Second

// process is one run of etcd.
type process struct {
	cmd    *exec.Cmd
	output lockedBuffer
	// running ends when the process exits; err is then the result of Wait.
	running context.Context
	err     error
}

// startProcess starts etcd. One goroutine, bound to its thread, both starts and
// awaits it: on Linux the kernel ends the child with the thread that started it, so
// that no etcd outlives a test run that was cut short.
func startProcess(binary string, flags []string) (*process, error) {
	running, ended := context.WithCancel(context.Background())
	p := &process{cmd: exec.Command(binary, flags...), running: running}
	p.cmd.Stdout, p.cmd.Stderr = &p.output, &p.output
	for _, variable := range os.Environ() {
		if !strings.HasPrefix(variable, "ETCD_") { // they are flags, too
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

// stop sends the process a signal to end, and kills it after a timeout.
func (p *process) stop() {
	if p.cmd.Process.Signal(syscall.SIGTERM) == nil {
		select {
		case <-p.running.Done():
			return
		case <-time.After(stopPatience):
		}
	}
	_ = p.cmd.Process.Kill()
	<-p.running.Done()
}

// lockedBuffer is a buffer that is read while it is written.
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
