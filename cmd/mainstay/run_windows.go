package main

import (
	"os"
	"syscall"
)

// passedSignals returns signals that do not occur, because an empty list would select all.
func passedSignals() []os.Signal { return []os.Signal{syscall.SIGHUP} }

// terminalInterrupts reports true: an interrupt is Ctrl-C at the console, which all programs of the
// console receive.
func terminalInterrupts() bool { return true }

// exitCodeOf returns the exit code of a command.
func exitCodeOf(state *os.ProcessState) exitCode { return exitCode(state.ExitCode()) }
