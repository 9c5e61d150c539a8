package host

import (
	"errors"
	"syscall"
)

func sharePort(_, _ string, _ syscall.RawConn) error {
	return errors.New("--permit-port-sharing is not possible on Windows")
}
