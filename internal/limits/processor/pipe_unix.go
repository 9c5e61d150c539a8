//go:build unix

package processor

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// pipe is a pipe with one goroutine as reader and writer.
type pipe struct {
	r, w   *os.File
	reader syscall.RawConn
	fd     int // of w
	sent   bool
	step   func(fd uintptr) bool // turn, which is not to be allocated each time
}

func newPipe() (*pipe, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("make a pipe: %w", err)
	}
	p := &pipe{r: r, w: w}
	p.step = p.turn
	if p.reader, err = r.SyscallConn(); err != nil {
		return nil, errors.Join(err, p.close())
	}
	writer, err := w.SyscallConn()
	if err == nil {
		err = writer.Control(func(fd uintptr) { p.fd = int(fd) })
	}
	if err != nil {
		return nil, errors.Join(err, p.close())
	}
	return p, nil
}

// pass sends a byte through the pipe, and returns after the poller has reported it.
func (p *pipe) pass() {
	p.sent = false
	_ = p.reader.Read(p.step) // fails after Close
}

// turn writes the byte, and reads it after the poller has reported it. The byte must be written
// here, so that the poller does not report an earlier event.
func (p *pipe) turn(fd uintptr) bool {
	var one [1]byte
	if !p.sent {
		p.sent = true
		_, err := syscall.Write(p.fd, one[:])
		return err != nil // then there will be no news
	}
	_, err := syscall.Read(int(fd), one[:])
	return err != syscall.EAGAIN
}

func (p *pipe) close() error { return errors.Join(p.r.Close(), p.w.Close()) }
