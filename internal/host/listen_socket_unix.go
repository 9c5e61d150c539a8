//go:build unix && (!linux || race)

package host

import "golang.org/x/sys/unix"

// writeNow writes what a socket takes at once; full says that it takes nothing now.
func writeNow(fd uintptr, p []byte) (n int, full bool, err error) {
	for {
		n, err = unix.Write(int(fd), p)
		if err != unix.EINTR {
			return n, err == unix.EAGAIN, err
		}
	}
}
