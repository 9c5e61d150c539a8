//go:build unix

package processor

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// pipe is one whose reader is the writer.
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

// pass sends a byte through the pipe, and returns when the poller has told of it.
func (p *pipe) pass() {
	p.sent = false
	_ = p.reader.Read(p.step) // fails once it is closed, and then nobody waits
}

// turn writes the byte, and when the poller has told of it reads it. Only in here does
// the poller not take it for news of before.
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
