//go:build !race

package host

import (
	"io"
	"net"
	"syscall"
	"unsafe"
)

// socketListener accepts connections whose reads and writes are system calls that Go's
// scheduler is not told of: a socket that is not blocking has nobody wait. Of any other call
// the scheduler thinks that it may, and after 20 us, which a write to a client on the same
// machine takes, it gives the processor to another thread, and the two change places. A read
// by a single client took a quarter more time of the processor so.
//
// The race detector takes it that what is written happens before it is read, and so is to
// see these calls.
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
		return c, nil // whose reads will say what is wrong
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
	// step does what can be done at once. The network's poller has it called again when
	// that was nothing, and the socket is ready.
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

// transferNow reads what a socket has, or writes what it takes, at once: call is SYS_READ or
// SYS_WRITE. p is not empty.
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

// writeNow writes what a socket takes at once; full says that it takes nothing now.
func writeNow(fd uintptr, p []byte) (n int, full bool, err error) {
	n, errno := transferNow(syscall.SYS_WRITE, fd, p)
	if errno != 0 {
		return 0, errno == syscall.EAGAIN, errno
	}
	return n, false, nil
}
