package http2

import (
	"fmt"
	"net"
	"strings"
	"testing"
)

// gathering wraps a connection with the method Gather and records the calls.
type gathering struct {
	net.Conn
	did []string
}

func (c *gathering) NetConn() net.Conn { return c }

func (c *gathering) Gather(n int) { c.did = append(c.did, fmt.Sprint("gather ", n)) }

func (c *gathering) Write(p []byte) (int, error) {
	c.did = append(c.did, fmt.Sprint("write ", len(p)))
	return len(p), nil
}

// TestGather: the records of more than a TLS record are gathered.
func TestGather(t *testing.T) {
	t.Parallel()
	below := &gathering{}
	c := &conn{net: below, gatherer: gathererOf(below)}
	for _, size := range []int{tlsRecord, tlsRecord + 1} {
		if err := c.writeOut(make([]byte, size)); err != nil {
			t.Error(err)
		}
	}
	if got := strings.Join(below.did, ", "); got != "write 16384, gather 16385, write 16385" {
		t.Errorf("did: %s", got)
	}
}
