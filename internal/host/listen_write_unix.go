//go:build unix

package host

import "golang.org/x/sys/unix"

// writeNow writes without blocking; full reports that the socket accepts no data.
func writeNow(fd uintptr, p []byte) (n int, full bool, err error) {
	for {
		n, err = unix.Write(int(fd), p)
		if err != unix.EINTR {
			return n, err == unix.EAGAIN, err
		}
	}
}
