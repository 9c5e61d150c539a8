package proxy

import (
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"
)

// TestThrottle checks the rate of a connection in both directions.
func TestThrottle(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client, clientEnd := net.Pipe()
		backend, backendEnd := net.Pipe()
		p := &Proxy{MaxBytesPerSecond: 1000}
		joined := make(chan struct{})
		go func() { p.Join(clientEnd, backendEnd); close(joined) }()
		for name, ends := range map[string][2]net.Conn{"to the backend": {client, backend}, "to the client": {backend, client}} {
			began := time.Now()
			go func() { _, _ = ends[0].Write(make([]byte, 5000)) }()
			if _, err := io.ReadFull(ends[1], make([]byte, 5000)); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(began); took < 4*time.Second || took > 6*time.Second {
				t.Errorf("5000 bytes %s took %s; want 5s", name, took)
			}
		}
		// Closing a connection ends the waiting transfer.
		go func() { _, _ = client.Write(make([]byte, 1<<20)) }()
		synctest.Wait()
		began := time.Now()
		_ = client.Close()
		_ = backend.Close()
		<-joined
		if took := time.Since(began); took > time.Second {
			t.Errorf("closing took %s", took)
		}
	})
}

func TestNoThrottle(t *testing.T) {
	t.Parallel()
	a, b := net.Pipe()
	defer a.Close()
	defer b.Close()
	if new(Proxy).Throttle(a) != io.ReadWriteCloser(a) {
		t.Error("a connection without a limit is wrapped")
	}
}
