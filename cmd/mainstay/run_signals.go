package main

import (
	"os"
	"os/signal"
	"syscall"
)

// otherSignals starts receiving the signals that are forwarded to a command, apart from those that stop this
// process. It must be called before the command starts, so that no signal ends only this process. A signal that
// nohup or a shell ignores remains ignored, also by the command.
func otherSignals() (signals chan os.Signal, stop func()) {
	signals = make(chan os.Signal, 8)
	for _, s := range passedSignals() {
		if !signal.Ignored(s) {
			signal.Notify(signals, s)
		}
	}
	return signals, func() { signal.Stop(signals) }
}

// forwardSignals forwards signals to the command until the command has exited. If the server ends first, it
// sends SIGTERM to the command.
func forwardSignals(command *os.Process, signals, others <-chan os.Signal, serverEnded, ended <-chan struct{}) {
	// Errors are ignored, because the command may just have exited.
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
