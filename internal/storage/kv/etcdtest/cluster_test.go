package etcdtest

import (
	"net"
	"testing"
)

// TestStoppedMember checks that the proxies of a stopped member connect to no other program that uses
// its former address.
func TestStoppedMember(t *testing.T) {
	t.Parallel()
	m := Start(t, Options{}).Members[0]
	address := m.clients.currentTarget()
	m.Stop()
	if other, err := net.Listen("tcp", address); err == nil { // otherwise another process uses the port
		defer other.Close()
	}
	conn, err := net.Dial("tcp", m.clients.address())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if n, err := conn.Read(make([]byte, 1)); err == nil {
		t.Errorf("read %d bytes through the proxy of a stopped member", n)
	}
	m.Restart()
	if _, err := m.getStatus(); err != nil {
		t.Errorf("status after a restart: %v", err)
	}
}

// TestForeignMember checks that a member is not ready if another etcd serves its address.
func TestForeignMember(t *testing.T) {
	t.Parallel()
	m, foreign := Start(t, Options{}).Members[0], Start(t, Options{}).Members[0]
	if !m.isReady(m.process) {
		t.Error("the member is not ready")
	}
	own := m.clients.currentTarget()
	m.clients.setTarget(foreign.clients.currentTarget())
	if m.isReady(m.process) {
		t.Error("the member is ready although another etcd serves its address")
	}
	m.clients.setTarget(own)
}
