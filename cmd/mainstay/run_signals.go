package main

import (
	"os"
	"os/signal"
	"syscall"
)

// passSignals passes signals on to the command until it has ended, and terminates it
// when the server has ended without it.
func passSignals(command *os.Process, signals <-chan os.Signal, serverEnded, ended <-chan struct{}) {
	others := make(chan os.Signal, 8)
	signal.Notify(others, passedSignals()...)
	defer signal.Stop(others)
	// Signals of a command that has just ended go nowhere, which is no error.
	for {
		select {
		case s := <-signals:
			if s != os.Interrupt || !terminalInterrupts() {
				_ = command.Signal(s)
			}
		case s := <-others:
			_ = command.Signal(s)
		case <-serverEnded:
			_ = command.Signal(syscall.SIGTERM)
			serverEnded = nil
		case <-ended:
			return
		}
	}
}
