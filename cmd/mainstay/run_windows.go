package main

import (
	"os"
	"syscall"
)

// passedSignals returns a signal that does not occur on Windows, because an empty list would select
// all signals.
func passedSignals() []os.Signal { return []os.Signal{syscall.SIGHUP} }

// terminalInterrupts returns true, because all programs of a console receive its Ctrl-C.
func terminalInterrupts() bool { return true }

// exitCodeOf returns the exit code of a command.
func exitCodeOf(state *os.ProcessState) exitCode { return exitCode(state.ExitCode()) }
