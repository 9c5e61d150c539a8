package main

import (
	"os"
	"os/signal"
	"syscall"
)

// otherSignals returns the signals that are passed on to a command, in addition to those that stop
// this program. It is called before the command starts, so that no signal ends only this program.
func otherSignals() (signals chan os.Signal, stop func()) {
	signals = make(chan os.Signal, 8)
	signal.Notify(signals, passedSignals()...)
	return signals, func() { signal.Stop(signals) }
}

// passSignals passes signals on to the command until it has ended, and terminates it
// when the server has ended without it.
func passSignals(command *os.Process, signals, others <-chan os.Signal, serverEnded, ended <-chan struct{}) {
	// An error of a command that has just ended is ignored.
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
