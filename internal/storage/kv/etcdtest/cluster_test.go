package etcdtest

import (
	"net"
	"testing"
)

// TestTakenPort checks that a member uses another port if its port is in use.
func TestTakenPort(t *testing.T) {
	t.Parallel()
	m := Start(t, Options{}).Members[0]
	m.Stop()
	other, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	m.clients.setTarget(other.Addr().String())
	m.Restart()
	if got := m.clients.currentTarget(); got == other.Addr().String() {
		t.Errorf("the member listens on %s, which is in use", got)
	}
	if _, err := m.getStatus(); err != nil {
		t.Errorf("status after a restart: %v", err)
	}
}

// TestStoppedMember checks that the proxies of a stopped member do not connect to another process that uses
// its former address.
func TestStoppedMember(t *testing.T) {
	t.Parallel()
	m := Start(t, Options{}).Members[0]
	address := m.clients.currentTarget()
	m.Stop()
	other, err := net.Listen("tcp", address)
	if err != nil {
		t.Skip("another process took the port")
	}
	defer other.Close()
	go func() { // ends when other is closed
		for {
			conn, err := other.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Write([]byte("x"))
			_ = conn.Close()
		}
	}()
	conn, err := net.Dial("tcp", m.clients.address())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if n, err := conn.Read(make([]byte, 1)); err == nil {
		t.Errorf("read %d bytes through the proxy of a stopped member", n)
	}
}

// TestForeignMember checks that a member detects that another etcd serves its address.
func TestForeignMember(t *testing.T) {
	t.Parallel()
	m, foreign := Start(t, Options{}).Members[0], Start(t, Options{}).Members[0]
	if id, err := m.responderID(); err != nil || id != m.id {
		t.Errorf("ID of the member: %s, %v, want %s", id, err, m.id)
	}
	m.clients.setTarget(foreign.clients.currentTarget())
	if id, err := m.responderID(); err == nil {
		t.Errorf("ID of another etcd: %s, want an error", id)
	}
}
