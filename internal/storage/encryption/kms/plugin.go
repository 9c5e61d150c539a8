package kms

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"google.golang.org/grpc"
	api "k8s.io/kms/apis/v2"

	"mainstay.dev/mainstay/internal/egress/socket"
)

// plugin is the connection to a plugin. Calls wait for a plugin that is not running yet, up to the
// timeout.
type plugin struct {
	name    string
	timeout time.Duration
	conn    *grpc.ClientConn
	client  api.KeyManagementServiceClient
	metrics *Metrics
}

// dial returns a connection that is established by the first call.
func dial(cfg *Config) (*plugin, error) {
	address, err := socketOf(cfg.Endpoint)
	if err != nil {
		return nil, err
	}
	p := &plugin{name: cfg.Name, timeout: cfg.Timeout, metrics: cfg.Metrics}
	p.conn, err = socket.Dial(address, func(method string, took time.Duration, err error) { p.metrics.called(p.name, method, took, err) })
	if err != nil {
		return nil, err
	}
	p.client = api.NewKeyManagementServiceClient(p.conn)
	return p, nil
}

// socketOf returns the address of an endpoint such as unix:///run/kms.sock. unix:///@name
// is an abstract socket of Linux.
func socketOf(endpoint string) (string, error) {
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

func (p *plugin) status(ctx context.Context) (*api.StatusResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	return p.client.Status(ctx, &api.StatusRequest{})
}

// encrypt encrypts a seed with the plugin's key.
func (p *plugin) encrypt(ctx context.Context, uid string, seed []byte) (*envelope, error) {
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	response, err := p.client.Encrypt(ctx, &api.EncryptRequest{Plaintext: seed, Uid: uid})
	if err != nil {
		return nil, fmt.Errorf("failed to encrypt DEK, error: %w", err)
	}
	return &envelope{keyID: response.KeyId, source: response.Ciphertext, annotations: response.Annotations, sourceType: sourceSeed}, nil
}

// decrypt returns the key or seed of an envelope.
func (p *plugin) decrypt(ctx context.Context, uid string, e *envelope) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	response, err := p.client.Decrypt(ctx, &api.DecryptRequest{Ciphertext: e.source, Uid: uid, KeyId: e.keyID, Annotations: e.annotations})
	if err != nil {
		return nil, fmt.Errorf("failed to decrypt DEK, error: %w", err)
	}
	return response.Plaintext, nil
}
