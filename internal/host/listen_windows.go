package host

import (
	"errors"
	"syscall"
)

func sharePort(_, _ string, _ syscall.RawConn) error {
	return errors.New("--permit-port-sharing is not possible on Windows")
}

// writeNow leaves writing to net, which does not tell of a full socket here.
func writeNow(uintptr, []byte) (n int, full bool, err error) { return 0, false, errors.ErrUnsupported }
