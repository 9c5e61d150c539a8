package etcdtest

import (
	"net"
	"testing"
)

// TestTakenPort checks that a member uses another port if its port is in use.
func TestTakenPort(t *testing.T) {
	t.Parallel()
	c := Start(t, Options{})
	m := c.Members[0]
	m.Stop()
	other, err := net.Listen("tcp", m.clients.currentTarget())
	if err != nil {
		t.Skip("another process took the port") // the case under test
	}
	defer other.Close()
	m.Restart()
	if got := m.clients.currentTarget(); got == other.Addr().String() {
		t.Errorf("the member listens on %s, which is in use", got)
	}
	conn, err := net.Dial("tcp", m.clients.address())
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.Close()
}
