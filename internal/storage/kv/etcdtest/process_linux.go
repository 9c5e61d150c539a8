package etcdtest

import (
	"os/exec"
	"syscall"
)

func dieWithParent(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }

// Pause suspends the member's process.
func (m *Member) Pause() { m.signal(syscall.SIGSTOP) }

// Resume ends Pause.
func (m *Member) Resume() { m.signal(syscall.SIGCONT) }

func (m *Member) signal(signal syscall.Signal) {
	m.t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.process.cmd.Process.Signal(signal); err != nil {
		m.t.Fatalf("send %s to %s: %v", signal, m.name, err)
	}
}
