package host

import (
	"bytes"
	"io"
	"net"
	"testing"

	"mainstay.dev/mainstay/internal/limits/processor"
)

// TestSlowReader checks that a write to a client that does not read holds no CPU slot, so other
// bulk writes continue even with a single slot, and that the client finally receives all data.
func TestSlowReader(t *testing.T) {
	t.Parallel()
	turns := processor.New(processor.Config{Processors: func() int { return 1 }, PerProcessor: 1})
	defer turns.Close()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	bulk := bytes.Repeat([]byte("much of it;"), 2<<20)
	ended := make(chan error, 2)
	connect := func() net.Conn {
		client, err := net.Dial("tcp", listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { client.Close() })
		c, err := bulkListener{Listener: listener, turns: turns}.Accept()
		if err != nil {
			t.Fatal(err)
		}
		go func() { // ends with its client
			_, err := c.Write(bulk)
			c.Close()
			ended <- err
		}()
		return client
	}
	receives := func(client net.Conn) {
		t.Helper()
		if got, err := io.ReadAll(client); err != nil || !bytes.Equal(got, bulk) {
			t.Errorf("a client got %d of %d bytes: %v", len(got), len(bulk), err)
		}
		if err := <-ended; err != nil {
			t.Errorf("write: %v", err)
		}
	}
	slow := connect()
	for range 3 {
		receives(connect())
	}
	receives(slow)

	gone := connect()
	gone.Close()
	if err := <-ended; err == nil {
		t.Error("a write to a client that is gone succeeded")
	}
	receives(connect())
}
