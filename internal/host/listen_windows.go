package host

import (
	"errors"
	"syscall"
)

func sharePort(_, _ string, _ syscall.RawConn) error {
	return errors.New("--permit-port-sharing is not possible on Windows")
}

// writeNow defers to package net, because a full socket is not reported on this system.
func writeNow(uintptr, []byte) (n int, full bool, err error) { return 0, false, errors.ErrUnsupported }
