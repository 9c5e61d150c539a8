package proxy_test

import (
	"bytes"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"mainstay.dev/mainstay/internal/egress/proxy"
)

// TestThrottle checks the rate of both directions of a connection, and that the data is complete.
func TestThrottle(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const rate, size = 1000, 5000
		text := bytes.Repeat([]byte("0123456789"), size/10)
		client, server := net.Pipe()
		throttled := (&proxy.Proxy{BytesPerSecond: rate}).Throttle(server)
		for name, ends := range map[string]struct {
			from io.WriteCloser
			to   io.Reader
		}{"write": {throttled, client}, "read": {client, throttled}} {
			start := time.Now()
			go func() { _, _ = ends.from.Write(text) }()
			got := make([]byte, size)
			if _, err := io.ReadFull(ends.to, got); err != nil || !bytes.Equal(got, text) {
				t.Errorf("%s: the data differs, %v", name, err)
			}
			// The first second's bytes pass at once.
			if took := time.Since(start); took < 3*time.Second || took > 5*time.Second {
				t.Errorf("%s: %d bytes at %d bytes/s took %s", name, size, rate, took)
			}
			time.Sleep(time.Minute) // until the limiter is full again
		}
	})
}

// TestThrottleDisabled checks that a connection without a limit is not wrapped.
func TestThrottleDisabled(t *testing.T) {
	t.Parallel()
	client, _ := net.Pipe()
	if new(proxy.Proxy).Throttle(client) != io.ReadWriteCloser(client) {
		t.Error("the connection was wrapped")
	}
}
