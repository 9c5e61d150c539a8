package selector_test

import (
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"mainstay.dev/mainstay/internal/egress"
	"mainstay.dev/mainstay/internal/egress/selector/selectortest"
)

// tunnelTest is a konnectivity server with a listener that is reachable through it.
type tunnelTest struct {
	proxy    *selectortest.Proxy
	dial     egress.Dial
	listener net.Listener
}

func newTunnelTest(t *testing.T) *tunnelTest {
	t.Helper()
	socket := unixListener(t)
	p := &tunnelTest{proxy: &selectortest.Proxy{}, listener: tcpListener(t)}
	p.proxy.Konnectivity(t, socket)
	t.Cleanup(func() { _ = p.listener.Close() })
	networks, _ := open(t, clusterBy("{proxyProtocol: GRPC, transport: {uds: {udsName: "+socket.Addr().String()+"}}}"))
	p.dial = networks.Cluster
	return p
}

// connect returns both ends of a new connection through the tunnel.
func (p *tunnelTest) connect(t *testing.T) (near, far net.Conn) {
	t.Helper()
	near, err := p.dial(t.Context(), "tcp", p.listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = near.Close() })
	if far, err = p.listener.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = far.Close() })
	return near, far
}

// ended waits until no tunnel is open.
func (p *tunnelTest) ended(t *testing.T) {
	t.Helper()
	for begun := time.Now(); p.proxy.Streams() > 0; time.Sleep(time.Millisecond) {
		if time.Since(begun) > 30*time.Second {
			t.Fatalf("%d streams are open", p.proxy.Streams())
		}
	}
}

// TestCloseDeliversWrites checks that the peer reads all data that was written before Close, and then io.EOF.
func TestCloseDeliversWrites(t *testing.T) {
	t.Parallel()
	p := newTunnelTest(t)
	near, far := p.connect(t)
	text := strings.Repeat("0123456789", 50_000)
	if n, err := io.WriteString(near, text); n != len(text) || err != nil {
		t.Fatal(n, err)
	}
	if err := near.Close(); err != nil {
		t.Error(err)
	}
	if got, err := io.ReadAll(far); err != nil || string(got) != text {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	p.ended(t)
	if _, err := near.Write([]byte("x")); !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
	if _, err := near.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
	if err := near.Close(); !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
}

// TestPeerCloseDeliversWrites checks that reads return all data of the peer before io.EOF when the peer closes.
func TestPeerCloseDeliversWrites(t *testing.T) {
	t.Parallel()
	p := newTunnelTest(t)
	near, far := p.connect(t)
	if _, err := io.WriteString(far, "bye"); err != nil {
		t.Fatal(err)
	}
	_ = far.Close()
	if got, err := io.ReadAll(near); err != nil || string(got) != "bye" {
		t.Errorf("read after the close: %q, error %v; want bye", got, err)
	}
	p.ended(t)
}

// TestDeadlines checks that a blocked read returns at its deadline, that writes fail after the write deadline,
// and that data which was written before is not lost.
func TestDeadlines(t *testing.T) {
	t.Parallel()
	p := newTunnelTest(t)
	near, far := p.connect(t)
	if _, err := io.WriteString(near, "before"); err != nil {
		t.Fatal(err)
	}
	if err := near.SetWriteDeadline(time.Now()); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(near, "after"); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error(err)
	}
	_ = near.Close()
	if got, err := io.ReadAll(far); err != nil || string(got) != "before" {
		t.Errorf("read after the close: %q, error %v; want before", got, err)
	}

	near, _ = p.connect(t)
	if err := near.SetDeadline(time.Now().Add(10 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if n, err := near.Read(make([]byte, 1)); n > 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error(n, err)
	}
	p.ended(t)
}

// TestClosedWhileReading checks that Close unblocks a Read.
func TestClosedWhileReading(t *testing.T) {
	t.Parallel()
	p := newTunnelTest(t)
	near, _ := p.connect(t)
	read := make(chan error)
	go func() {
		_, err := near.Read(make([]byte, 1))
		read <- err
	}()
	_ = near.Close()
	if err := <-read; !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
	p.ended(t)
}

// TestServerGone checks that tunnels fail when their server stops, and that new tunnels use the restarted
// server.
func TestServerGone(t *testing.T) {
	t.Parallel()
	socket := unixListener(t)
	proxy, target := &selectortest.Proxy{}, tcpListener(t)
	defer func() { _ = target.Close() }()
	server := proxy.Konnectivity(t, socket)
	networks, _ := open(t, clusterBy("{proxyProtocol: GRPC, transport: {uds: {udsName: "+socket.Addr().String()+"}}}"))
	near, err := networks.Cluster(t.Context(), "tcp", target.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	server.Stop() // Stop removes the socket
	if _, err := near.Read(make([]byte, 1)); err == nil {
		t.Error("a read succeeded after the server stopped")
	}
	_ = near.Close()
	if _, err := networks.Cluster(t.Context(), "tcp", target.Addr().String()); err == nil {
		t.Error("no error for a stopped server")
	}
	again, err := net.Listen("unix", socket.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	proxy.Konnectivity(t, again)
	for begun := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		conn, err := networks.Cluster(t.Context(), "tcp", target.Addr().String())
		if err == nil {
			_ = conn.Close()
			return
		}
		if time.Since(begun) > 30*time.Second {
			t.Fatal(err)
		}
	}
}

// TestBackpressure checks that a slow reader blocks the writer and loses no data.
func TestBackpressure(t *testing.T) {
	t.Parallel()
	p := newTunnelTest(t)
	near, far := p.connect(t)
	const size = 32 << 20
	wrote := make(chan error, 1)
	go func() {
		_, err := io.CopyN(far, zeros{}, size)
		wrote <- err
	}()
	var first [1]byte
	if _, err := io.ReadFull(near, first[:]); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-wrote:
		t.Errorf("all %d bytes were written although the reader has read only one: %v", size, err)
	default:
	}
	if n, err := io.CopyN(io.Discard, near, size-1); err != nil {
		t.Error(n, err)
	}
	if err := <-wrote; err != nil {
		t.Error(err)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }
