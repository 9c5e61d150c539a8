package main

import "os"

// passedSignals returns no signals, because Windows has only those that stop this process.
func passedSignals() []os.Signal { return nil }

// terminalInterrupts returns true, because all processes of a console receive Ctrl-C.
func terminalInterrupts() bool { return true }

func exitCodeOf(state *os.ProcessState) exitCode { return exitCode(state.ExitCode()) }
