//go:build unix

package host

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// sharePort permits several processes to listen on one port (--permit-port-sharing).
func sharePort(_, _ string, conn syscall.RawConn) error {
	var optionErr error
	err := conn.Control(func(fd uintptr) {
		optionErr = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1)
	})
	if err != nil {
		return err
	}
	return optionErr
}
