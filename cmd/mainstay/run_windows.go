package main

import (
	"os"
	"syscall"
)

// passedSignals are those that there never are, for none at all would mean any.
func passedSignals() []os.Signal { return []os.Signal{syscall.SIGHUP} }

// terminalInterrupts: an interrupt is Ctrl-C at the console, which all its programs get.
func terminalInterrupts() bool { return true }

// exitCodeOf returns the exit code of a command.
func exitCodeOf(state *os.ProcessState) exitCode { return exitCode(state.ExitCode()) }
