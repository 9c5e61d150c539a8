package etcd

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"
)

// leaderless simulates an etcd member without a leader, which rejects all watches.
type leaderless struct {
	pb.UnimplementedWatchServer
	rejected atomic.Int64
	limit    int64
	exceeded context.CancelFunc // called when rejected exceeds limit
}

func (m *leaderless) Watch(pb.Watch_WatchServer) error {
	if m.rejected.Add(1) > m.limit {
		m.exceeded()
	}
	return rpctypes.ErrGRPCNoLeader
}

// TestLeaderless checks that a watch pauses before it is opened again on a member without a leader, which
// rejects it immediately.
func TestLeaderless(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		const outage = 10 * time.Second
		member := &leaderless{limit: int64(outage / reopenPause), exceeded: cancel}
		server := grpc.NewServer()
		defer server.Stop()
		pb.RegisterWatchServer(server, member)
		connections := &pipeListener{accepted: make(chan net.Conn), closed: make(chan struct{})}
		go func() { _ = server.Serve(connections) }()
		s := open(t, Config{
			Endpoints: []string{"http://etcd:2379"},
			Dial: func(context.Context, string, string) (net.Conn, error) {
				client, server := net.Pipe()
				connections.accepted <- server
				return client, nil
			},
		})
		defer s.Close()
		w, err := s.Watch(ctx, "/a", "/b", 1)
		if err != nil {
			t.Fatal(err)
		}
		defer w.Stop()
		select {
		case <-time.After(outage):
		case <-ctx.Done():
		}
		if n := member.rejected.Load(); n == 0 || n > member.limit {
			t.Errorf("the watch was opened %d times in %s", n, outage)
		}
	})
}

// pipeListener accepts connections in memory.
type pipeListener struct {
	accepted chan net.Conn
	closed   chan struct{}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.accepted:
		return conn, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error   { close(l.closed); return nil }
func (l *pipeListener) Addr() net.Addr { return &net.UnixAddr{Name: "etcd"} }
