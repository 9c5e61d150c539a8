// Package socket connects to plugins that serve gRPC on unix domain sockets.
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

// maxReconnect is the maximum delay until a restarted plugin is detected.
const maxReconnect = 5 * time.Second

// Dial returns a connection to the socket at a path, or to an abstract Linux socket with the prefix
// @. The first call connects; calls wait for a missing plugin. measured is called after each call.
// The caller closes the connection.
func Dial(path string, measured func(method string, took time.Duration, err error)) (*grpc.ClientConn, error) {
	reconnect := grpc.ConnectParams{Backoff: backoff.DefaultConfig, MinConnectTimeout: maxReconnect}
	reconnect.Backoff.MaxDelay = maxReconnect
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
			measured(method, time.Since(start), err)
			return err
		}),
	)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", path, err)
	}
	return conn, nil
}

// StatusCode is the code of gRPC of an error, for metrics.
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
