// Package socket connects to plugins that serve gRPC on Unix domain sockets.
package socket

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
)

// maxReconnectDelay is the maximum delay between two attempts to connect to a plugin.
const maxReconnectDelay = 5 * time.Second

// Dial returns a gRPC connection to the Unix socket at path, or to an abstract Linux socket if path
// starts with @. Dial itself does not connect. Calls block until the plugin is reachable or their
// context ends. onCall is called after each unary call; it must be safe for concurrent use. The
// caller must close the connection. Dial returns an error only if gRPC rejects the path.
func Dial(path string, onCall func(method string, took time.Duration, err error)) (*grpc.ClientConn, error) {
	reconnect := grpc.ConnectParams{Backoff: backoff.DefaultConfig, MinConnectTimeout: maxReconnectDelay}
	reconnect.Backoff.MaxDelay = maxReconnectDelay
	conn, err := grpc.NewClient("passthrough:///"+path,
		grpc.WithAuthority("localhost"),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.WaitForReady(true)),
		grpc.WithConnectParams(reconnect),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", path)
		}),
		grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption) error {
			start := time.Now()
			err := invoke(ctx, method, req, reply, conn, options...)
			onCall(method, time.Since(start), err)
			return err
		}),
	)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", path, err)
	}
	return conn, nil
}

// StatusCode returns the name of the gRPC status code of an error for use as a metric label: "OK"
// for nil, and "unknown-non-grpc" for errors without a gRPC status.
func StatusCode(err error) string {
	if err == nil {
		return codes.OK.String()
	}
	var called interface{ GRPCStatus() *status.Status }
	if errors.As(err, &called) {
		return called.GRPCStatus().Code().String()
	}
	return "unknown-non-grpc"
}
