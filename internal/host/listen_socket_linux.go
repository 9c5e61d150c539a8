//go:build !race

package host

import (
	"io"
	"net"
	"syscall"
	"unsafe"
)

// socketListener accepts connections that read and write with raw system calls. The sockets are
// nonblocking, so the calls return immediately. For other system calls, the Go scheduler retakes
// the P after 20 µs, about the duration of a loopback write, and the thread switches cost a single
// client's GET 25 % more CPU. Under the race detector, regular calls establish the happens-before
// relation between a write and its read.
type socketListener struct{ net.Listener }

// Accept implements net.Listener.
func (l socketListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	socket, ok := c.(syscall.Conn)
	if !ok {
		return c, nil
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return c, nil // reads will return the error
	}
	s := &socketConn{Conn: c, raw: raw}
	s.in.step, s.out.step = s.readSome, s.writeSome
	return s, nil
}

// socketConn is a connection of a socketListener. Like TLS, it is for one reader and one
// writer at a time.
type socketConn struct {
	net.Conn
	raw     syscall.RawConn
	in, out transfer
}

// transfer is a read or a write under way.
type transfer struct {
	// step performs the possible transfer. The network poller calls it again when the socket is
	// ready, until it returns true.
	step func(fd uintptr) (done bool)
	p    []byte
	n    int
	err  syscall.Errno
}

// SyscallConn implements syscall.Conn.
func (s *socketConn) SyscallConn() (syscall.RawConn, error) { return s.raw, nil }

// Read implements net.Conn.
func (s *socketConn) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return s.Conn.Read(p)
	}
	t := &s.in
	t.p, t.n, t.err = p, 0, 0
	err := s.raw.Read(t.step)
	t.p = nil
	if err != nil || t.err != 0 {
		return s.Conn.Read(p) // which words it
	}
	if t.n == 0 {
		return 0, io.EOF
	}
	return t.n, nil
}

func (s *socketConn) readSome(fd uintptr) bool {
	t := &s.in
	t.n, t.err = transferNow(syscall.SYS_READ, fd, t.p)
	return t.err != syscall.EAGAIN
}

// Write implements net.Conn.
func (s *socketConn) Write(p []byte) (int, error) {
	t := &s.out
	t.p, t.n, t.err = p, 0, 0
	err := s.raw.Write(t.step)
	t.p = nil
	if err == nil && t.n == len(p) {
		return t.n, nil
	}
	n, err := s.Conn.Write(p[t.n:]) // which words it
	return t.n + n, err
}

func (s *socketConn) writeSome(fd uintptr) bool {
	t := &s.out
	for t.n < len(t.p) {
		n, err := transferNow(syscall.SYS_WRITE, fd, t.p[t.n:])
		if err != 0 || n <= 0 {
			t.err = err
			return err != syscall.EAGAIN
		}
		t.n += n
	}
	return true
}

// transferNow reads or writes without blocking: call is SYS_READ or SYS_WRITE. p must not be empty.
func transferNow(call, fd uintptr, p []byte) (int, syscall.Errno) {
	for {
		n, _, err := syscall.RawSyscall(call, fd, uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)))
		switch err {
		case 0:
			return int(n), 0
		case syscall.EINTR:
		default:
			return 0, err
		}
	}
}

// writeNow writes without blocking; full reports that the socket accepts no data.
func writeNow(fd uintptr, p []byte) (n int, full bool, err error) {
	n, errno := transferNow(syscall.SYS_WRITE, fd, p)
	if errno != 0 {
		return 0, errno == syscall.EAGAIN, errno
	}
	return n, false, nil
}
