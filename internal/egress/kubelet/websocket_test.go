package kubelet

import (
	"errors"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"
)

// TestEndOfUnreadSocket checks that a WebSocket ends at the deadline of endBy, although the client does not read and
// sending continues.
func TestEndOfUnreadSocket(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		defer near.Close()
		s := &webSocket{conn: far, idle: idleTimeout}
		begin := time.Now()
		results := make(chan error, 2)
		go func() {
			for range 2 {
				results <- s.send(binaryFrame, make([]byte, socketHeaderSize+1))
			}
		}()
		synctest.Wait()
		s.endBy(begin.Add(time.Minute))
		for range 2 {
			if err := <-results; !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("send: %v", err)
			}
		}
		if took := time.Since(begin); took != time.Minute {
			t.Errorf("sending ended after %v", took)
		}
		_ = s.Close()
	})
}
