package selector

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	konnectivity "sigs.k8s.io/apiserver-network-proxy/konnectivity-client/proto/client"
)

// tunnels establishes connections through a konnectivity server that listens on a Unix socket. All
// tunnels are streams of one gRPC connection.
type tunnels struct {
	socket string
	conn   *grpc.ClientConn
}

// newTunnels returns a tunnels value without connecting to the server.
func newTunnels(socket string) (*tunnels, error) {
	// Reconnect soon after the server has restarted. Dials fail while the server is unreachable.
	connect := grpc.ConnectParams{Backoff: backoff.DefaultConfig, MinConnectTimeout: dialTimeout}
	connect.Backoff.BaseDelay, connect.Backoff.MaxDelay = 100*time.Millisecond, time.Second
	conn, err := grpc.NewClient("passthrough:///konnectivity",
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", socket)
		}),
		grpc.WithTransportCredentials(insecure.NewCredentials()), // the permissions of the socket control access
		grpc.WithConnectParams(connect), grpc.WithNoProxy(), grpc.WithDisableServiceConfig(), grpc.WithDisableRetry(),
	)
	if err != nil {
		return nil, fmt.Errorf("create a client of %s: %w", socket, err)
	}
	return &tunnels{socket: socket, conn: conn}, nil
}

// Close closes all tunnels.
func (t *tunnels) Close() error { return t.conn.Close() }

// dial implements egress.Dial.
func (t *tunnels) dial(ctx context.Context, _, address string) (net.Conn, error) {
	// The tunnel outlives the request that opened it.
	lifetime, cancel := context.WithCancel(context.Background())
	done := context.AfterFunc(ctx, cancel)
	tunnel, err := t.open(lifetime, cancel, address)
	if !done() && err == nil {
		err = errors.New("the tunnel was opened too late")
	}
	if err != nil {
		cancel()
		if ctx.Err() != nil {
			err = proxyError{fmt.Errorf("dial %s through %s: %w", address, t.socket, context.Cause(ctx))}
		}
		return nil, err
	}
	return tunnel, nil
}

// open opens a stream and requests a connection to an address.
func (t *tunnels) open(ctx context.Context, cancel func(), address string) (*tunnel, error) {
	stream, err := konnectivity.NewProxyServiceClient(t.conn).Proxy(ctx)
	if err != nil {
		return nil, fmt.Errorf("open a tunnel by %s: %w", t.socket, err)
	}
	random := rand.Int64()
	err = stream.Send(&konnectivity.Packet{
		Type:    konnectivity.PacketType_DIAL_REQ,
		Payload: &konnectivity.Packet_DialRequest{DialRequest: &konnectivity.DialRequest{Protocol: "tcp", Address: address, Random: random}},
	})
	if err != nil {
		return nil, fmt.Errorf("open a tunnel by %s: %w", t.socket, err)
	}
	id, err := awaitDialResponse(stream, random)
	if err != nil {
		return nil, proxyError{fmt.Errorf("dial %s through %s: %w", address, t.socket, err)}
	}
	return &tunnel{stream: stream, id: id, cancel: cancel, address: address}, nil
}

// awaitDialResponse waits for the response to the dial request with the given random number, and
// returns the ID of the connection.
func awaitDialResponse(stream konnectivity.ProxyService_ProxyClient, random int64) (id int64, err error) {
	for {
		packet, err := stream.Recv()
		if err != nil {
			return 0, err
		}
		if packet.GetCloseDial().GetRandom() == random {
			return 0, errors.New("dial closed")
		}
		response := packet.GetDialResponse()
		switch {
		case response == nil || response.Random != random:
		case response.Error != "":
			return 0, errors.New(response.Error)
		default:
			return response.ConnectID, nil
		}
	}
}
