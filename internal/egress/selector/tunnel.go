package selector

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	konnectivity "sigs.k8s.io/apiserver-network-proxy/konnectivity-client/proto/client"
)

const (
	// closeTimeout is the timeout for delivering written data after Close.
	closeTimeout = 10 * time.Second
	// maxData is the maximum size of the data in a packet, in bytes.
	maxData = 64 << 10
)

// tunnel is a connection through a konnectivity server. Each tunnel has its own stream of packets,
// so that gRPC's flow control applies to the connection, without queues or copies. The protocol
// does not support half-closed connections. When a read deadline expires, the tunnel is closed.
// When a write deadline expires, later writes fail; if it expires during a Write, the tunnel is
// closed.
type tunnel struct {
	stream  konnectivity.ProxyService_ProxyClient
	id      int64
	address string // dialed address
	// cancel ends the stream. Blocked reads and writes return.
	cancel context.CancelFunc

	closed, expired atomic.Bool

	reading struct {
		sync.Mutex
		rest []byte // received data that did not fit into the buffer of Read
		err  error  // error of all later reads
	}
	writing struct {
		sync.Mutex
	}
	deadlines struct {
		sync.Mutex
		read  *time.Timer
		write time.Time
	}
}

var _ net.Conn = (*tunnel)(nil)

// Read implements net.Conn.
func (t *tunnel) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	t.reading.Lock()
	defer t.reading.Unlock()
	for len(t.reading.rest) == 0 {
		if t.reading.err == nil {
			t.reading.rest, t.reading.err = t.receive()
		}
		if t.reading.err != nil {
			return 0, t.streamError(t.reading.err)
		}
	}
	n := copy(p, t.reading.rest)
	t.reading.rest = t.reading.rest[n:]
	return n, nil
}

// receive returns the data of the next packet, which may be empty. It returns io.EOF after the peer
// has closed the connection.
func (t *tunnel) receive() ([]byte, error) {
	packet, err := t.stream.Recv()
	switch {
	case err != nil:
		return nil, err
	case packet.GetCloseResponse().GetError() != "":
		return nil, errors.New(packet.GetCloseResponse().Error)
	case packet.GetCloseResponse() != nil:
		return nil, io.EOF
	}
	if data := packet.GetData(); data.GetConnectID() == t.id {
		return data.GetData(), nil
	}
	return nil, nil // ignore data for other connections; a stream should not contain any
}

// Write implements net.Conn.
func (t *tunnel) Write(p []byte) (written int, err error) {
	t.writing.Lock()
	defer t.writing.Unlock()
	stop, err := t.startWriteTimer()
	if err != nil {
		return 0, err
	}
	defer stop()
	for written < len(p) {
		n := min(len(p)-written, maxData)
		err := t.stream.Send(&konnectivity.Packet{
			Type:    konnectivity.PacketType_DATA,
			Payload: &konnectivity.Packet_Data{Data: &konnectivity.Data{ConnectID: t.id, Data: p[written : written+n]}},
		})
		if err != nil {
			return written, t.streamError(err)
		}
		written += n
	}
	return written, nil
}

// startWriteTimer closes the tunnel at the write deadline, unless stop is called before. It returns
// an error if the tunnel is closed or the deadline has passed.
func (t *tunnel) startWriteTimer() (stop func() bool, err error) {
	if t.closed.Load() {
		return nil, net.ErrClosed
	}
	t.deadlines.Lock()
	deadline := t.deadlines.write
	t.deadlines.Unlock()
	switch left := time.Until(deadline); {
	case deadline.IsZero():
		return func() bool { return true }, nil
	case left <= 0:
		return nil, os.ErrDeadlineExceeded
	default:
		return time.AfterFunc(left, t.expire).Stop, nil
	}
}

func (t *tunnel) expire() {
	t.expired.Store(true)
	t.cancel()
}

// streamError converts an error of the stream to the error that Read or Write returns.
func (t *tunnel) streamError(err error) error {
	switch {
	case t.expired.Load():
		return os.ErrDeadlineExceeded
	case t.closed.Load():
		return net.ErrClosed
	}
	return err
}

// Close implements net.Conn. Written data is delivered in the background within closeTimeout.
func (t *tunnel) Close() error {
	if t.closed.Swap(true) {
		return net.ErrClosed
	}
	_ = t.SetReadDeadline(time.Time{})
	late := time.AfterFunc(closeTimeout, t.cancel)
	go func() {
		defer t.cancel()
		defer late.Stop()
		t.writing.Lock() // waits for a blocked Write, which the timer late interrupts after closeTimeout
		_ = t.stream.Send(&konnectivity.Packet{
			Type:    konnectivity.PacketType_CLOSE_REQ,
			Payload: &konnectivity.Packet_CloseRequest{CloseRequest: &konnectivity.CloseRequest{ConnectID: t.id}},
		})
		_ = t.stream.CloseSend()
		t.writing.Unlock()
		t.drain()
	}()
	return nil
}

// drain reads until the server has closed the connection.
func (t *tunnel) drain() {
	t.reading.Lock()
	defer t.reading.Unlock()
	for t.reading.err == nil {
		_, t.reading.err = t.receive()
	}
	t.reading.rest = nil
}

// LocalAddr implements net.Conn.
func (t *tunnel) LocalAddr() net.Addr { return address("konnectivity") }

// RemoteAddr implements net.Conn and returns the dialed address.
func (t *tunnel) RemoteAddr() net.Addr { return address(t.address) }

// SetDeadline implements net.Conn.
func (t *tunnel) SetDeadline(at time.Time) error {
	return errors.Join(t.SetReadDeadline(at), t.SetWriteDeadline(at))
}

// SetReadDeadline implements net.Conn.
func (t *tunnel) SetReadDeadline(at time.Time) error {
	t.deadlines.Lock()
	defer t.deadlines.Unlock()
	if t.deadlines.read != nil {
		t.deadlines.read.Stop()
		t.deadlines.read = nil
	}
	if !at.IsZero() {
		t.deadlines.read = time.AfterFunc(time.Until(at), t.expire)
	}
	return nil
}

// SetWriteDeadline implements net.Conn.
func (t *tunnel) SetWriteDeadline(at time.Time) error {
	t.deadlines.Lock()
	defer t.deadlines.Unlock()
	t.deadlines.write = at
	return nil
}

// address is the net.Addr of a tunnel.
type address string

func (address) Network() string  { return "tcp" }
func (a address) String() string { return string(a) }
