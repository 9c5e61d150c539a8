package host

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestSocketConn checks that client connections satisfy the contract of net.Conn.
func TestSocketConn(t *testing.T) {
	t.Parallel()
	for _, network := range []string{"tcp", "unix"} {
		t.Run(network, func(t *testing.T) {
			t.Parallel()
			address := "127.0.0.1:0"
			if network == "unix" {
				address = filepath.Join(t.TempDir(), "s")
			}
			plain, err := net.Listen(network, address)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { plain.Close() })
			client, err := net.Dial(network, plain.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { client.Close() })
			c, err := socketListener{plain}.Accept()
			if err != nil {
				t.Fatal(err)
			}
			testSocketConn(t, c, client)
		})
	}
}

func testSocketConn(t *testing.T, c, client net.Conn) {
	all := bytes.Repeat([]byte("a little of much."), 1<<18)
	written := make(chan error, 1)
	go func() { // ends when the client has read
		_, err := c.Write(all)
		written <- err
	}()
	got := make([]byte, len(all))
	if _, err := io.ReadFull(client, got); err != nil || !bytes.Equal(got, all) || <-written != nil {
		t.Fatalf("the client has read something else: %v", err)
	}
	go client.Write(all)
	if _, err := io.ReadFull(c, got); err != nil || !bytes.Equal(got, all) {
		t.Fatalf("something else is read than the client writes: %v", err)
	}
	if n, err := c.Read(nil); n != 0 || err != nil {
		t.Errorf("nothing is read, with %d, %v", n, err)
	}
	if n, err := c.Write(nil); n != 0 || err != nil {
		t.Errorf("nothing is written, with %d, %v", n, err)
	}

	isTimeout := func(err error) bool {
		var timeout net.Error
		return errors.As(err, &timeout) && timeout.Timeout() && errors.Is(err, os.ErrDeadlineExceeded)
	}
	_ = c.SetDeadline(time.Now().Add(10 * time.Millisecond))
	if n, err := c.Read(got); n != 0 || !isTimeout(err) {
		t.Errorf("a read without anything to read ends with %d, %v", n, err)
	}
	for err := error(nil); err == nil; { // the client's window has an end
		if _, err = c.Write(all); err != nil && !isTimeout(err) {
			t.Errorf("a write that is not read ends with %v", err)
		}
	}
	_ = c.SetDeadline(time.Time{})
	go io.Copy(io.Discard, client)

	var op *net.OpError
	done := make(chan error, 1)
	go func() {
		_, err := c.Read(got)
		done <- err
	}()
	client.(interface{ CloseWrite() error }).CloseWrite()
	if err := <-done; err != io.EOF {
		t.Errorf("after the last byte a read ends with %v", err)
	}
	client.Close()
	for err := error(nil); err == nil; {
		if _, err = c.Write(all); err != nil && !errors.As(err, &op) {
			t.Errorf("a write to a client that is gone ends with %v", err)
		}
	}
	c.Close()
	if _, err := c.Read(got); !errors.Is(err, net.ErrClosed) || !errors.As(err, &op) {
		t.Errorf("once closed, a read ends with %v", err)
	}
	if _, err := c.Write(got); !errors.Is(err, net.ErrClosed) {
		t.Errorf("once closed, a write ends with %v", err)
	}
}
