package http2

import (
	"fmt"
	"net"
	"strings"
	"testing"
)

// corkable is a connection with the method Cork. It records the calls of Cork and Write.
type corkable struct {
	net.Conn
	calls []string
}

func (c *corkable) NetConn() net.Conn { return c }

func (c *corkable) Cork(n int) { c.calls = append(c.calls, fmt.Sprint("cork ", n)) }

func (c *corkable) Write(p []byte) (int, error) {
	c.calls = append(c.calls, fmt.Sprint("write ", len(p)))
	return len(p), nil
}

// TestCork checks that data of more than one TLS record is corked.
func TestCork(t *testing.T) {
	t.Parallel()
	below := &corkable{}
	c := &conn{net: below, corker: corkerOf(below)}
	for _, size := range []int{tlsRecord, tlsRecord + 1} {
		if err := c.writeOut(make([]byte, size)); err != nil {
			t.Error(err)
		}
	}
	if got := strings.Join(below.calls, ", "); got != "write 16384, cork 16385, write 16385" {
		t.Errorf("calls: %s", got)
	}
}
