package testserver

import (
	"os/exec"
	"syscall"
)

func dieWithParent(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }

// Pause suspends the server process until Resume.
func (s *Server) Pause() error { return s.process.cmd.Process.Signal(syscall.SIGSTOP) }

// Resume continues the server process after Pause.
func (s *Server) Resume() error { return s.process.cmd.Process.Signal(syscall.SIGCONT) }
