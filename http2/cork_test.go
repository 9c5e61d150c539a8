package http2

import (
	"net"
	"strings"
	"testing"
)

// corkable is a connection over another one that can be corked, and notes what happens.
type corkable struct {
	net.Conn
	did []string
}

func (c *corkable) NetConn() net.Conn { return c }

func (c *corkable) Cork() { c.did = append(c.did, "cork") }

func (c *corkable) Uncork() error {
	c.did = append(c.did, "uncork")
	return net.ErrClosed
}

func (c *corkable) Write(p []byte) (int, error) {
	c.did = append(c.did, "write")
	return len(p), nil
}

// TestCork: more than a TLS record is written with the cork in, and what that write comes
// to counts.
func TestCork(t *testing.T) {
	t.Parallel()
	below := &corkable{}
	c := &conn{net: below, cork: corkerOf(below)}
	if err := c.writeOut(make([]byte, tlsRecord)); err != nil {
		t.Error(err)
	}
	if err := c.writeOut(make([]byte, tlsRecord+1)); err != net.ErrClosed {
		t.Errorf("the error of Uncork is lost: %v", err)
	}
	if got := strings.Join(below.did, " "); got != "write cork write uncork" {
		t.Errorf("did %s", got)
	}
}
