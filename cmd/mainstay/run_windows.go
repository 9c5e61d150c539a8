package main

import (
	"os"
	"syscall"
)

// passedSignals returns a signal that does not occur on Windows, because an empty list would select all
// signals.
func passedSignals() []os.Signal { return []os.Signal{syscall.SIGHUP} }

// terminalInterrupts returns true, because all processes of a console receive Ctrl-C.
func terminalInterrupts() bool { return true }

func exitCodeOf(state *os.ProcessState) exitCode { return exitCode(state.ExitCode()) }
