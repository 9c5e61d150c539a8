//go:build unix

package main

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// passedSignals returns the signals that are forwarded to a command, apart from those that stop this process.
func passedSignals() []os.Signal {
	return []os.Signal{syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2}
}

// terminalInterrupts reports whether Ctrl-C in the terminal interrupts the command directly, because the
// command is in the same foreground process group as this process.
func terminalInterrupts() bool {
	tty, err := os.Open("/dev/tty")
	if err != nil {
		return false
	}
	defer tty.Close()
	foreground, err := unix.IoctlGetInt(int(tty.Fd()), unix.TIOCGPGRP)
	return err == nil && foreground == unix.Getpgrp()
}

// exitCodeOf returns the exit code of a command as in a shell: 128 plus the signal number if a
// signal ended it.
func exitCodeOf(state *os.ProcessState) exitCode {
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return exitCode(128 + int(status.Signal()))
	}
	return exitCode(state.ExitCode())
}
