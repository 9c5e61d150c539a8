package kms

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	api "k8s.io/kms/apis/v2"
)

// maxReconnect is how long after a plugin has come back it is found, at most.
const maxReconnect = 5 * time.Second

// plugin is the connection to a plugin. Calls wait for one that is not there yet.
type plugin struct {
	name    string
	timeout time.Duration
	conn    *grpc.ClientConn
	client  api.KeyManagementServiceClient
	metrics *Metrics
}

// dial returns a connection, which is made by the first call.
func dial(cfg *Config) (*plugin, error) {
	address, err := socket(cfg.Endpoint)
	if err != nil {
		return nil, err
	}
	p := &plugin{name: cfg.Name, timeout: cfg.Timeout, metrics: cfg.Metrics}
	reconnect := grpc.ConnectParams{Backoff: backoff.DefaultConfig, MinConnectTimeout: maxReconnect}
	reconnect.Backoff.MaxDelay = maxReconnect
	p.conn, err = grpc.NewClient("passthrough:///"+address,
		grpc.WithAuthority("localhost"),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.WaitForReady(true)),
		grpc.WithConnectParams(reconnect),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", address)
		}),
		grpc.WithChainUnaryInterceptor(p.measured),
	)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", cfg.Endpoint, err)
	}
	p.client = api.NewKeyManagementServiceClient(p.conn)
	return p, nil
}

// socket returns the address of an endpoint such as unix:///run/kms.sock. unix:///@name
// is an abstract socket of Linux.
func socket(endpoint string) (string, error) {
	u, err := url.Parse(endpoint)
	switch {
	case endpoint == "":
		return "", errors.New("remote KMS provider can't use empty string as endpoint")
	case err != nil:
		return "", fmt.Errorf("invalid endpoint %q for remote KMS provider, error: %w", endpoint, err)
	case u.Scheme != "unix":
		return "", fmt.Errorf("unsupported scheme %q for remote KMS provider", u.Scheme)
	case strings.HasPrefix(u.Path, "/@"):
		return u.Path[1:], nil
	}
	return u.Path, nil
}

// measured is an interceptor of calls.
func (p *plugin) measured(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption) error {
	start := time.Now()
	err := invoke(ctx, method, req, reply, conn, options...)
	p.metrics.called(p.name, method, time.Since(start), err)
	return err
}

func (p *plugin) status(ctx context.Context) (*api.StatusResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	return p.client.Status(ctx, &api.StatusRequest{})
}

// encrypt has a seed encrypted.
func (p *plugin) encrypt(ctx context.Context, uid string, seed []byte) (*envelope, error) {
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	answer, err := p.client.Encrypt(ctx, &api.EncryptRequest{Plaintext: seed, Uid: uid})
	if err != nil {
		return nil, fmt.Errorf("failed to encrypt DEK, error: %w", err)
	}
	return &envelope{keyID: answer.KeyId, source: answer.Ciphertext, annotations: answer.Annotations, sourceType: sourceSeed}, nil
}

// decrypt returns the key or seed of an envelope.
func (p *plugin) decrypt(ctx context.Context, uid string, e *envelope) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	answer, err := p.client.Decrypt(ctx, &api.DecryptRequest{Ciphertext: e.source, Uid: uid, KeyId: e.keyID, Annotations: e.annotations})
	if err != nil {
		return nil, fmt.Errorf("failed to decrypt DEK, error: %w", err)
	}
	return answer.Plaintext, nil
}
