// Package externaltest provides a fake plugin for --service-account-signing-endpoint, which runs in
// the process of the test.
package externaltest

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"
	api "k8s.io/externaljwt/apis/v1"
)

// Responses determines the responses of a plugin.
type Responses struct {
	Keys          []*api.Key
	RefreshHint   int64 // seconds
	DataTimestamp *timestamppb.Timestamp
	MaxSeconds    int64
	Header        string // header of signed tokens; "" selects a valid header
	Unsigned      bool   // return tokens without a signature
	Fail          bool   // return an error for each call
}

// Plugin is a running plugin with one signing key.
type Plugin struct {
	api.UnimplementedExternalJWTSignerServer
	Socket string

	mu        sync.Mutex
	responses Responses
	key       *ecdsa.PrivateKey
	id        string
}

// New starts a plugin with a signing key that has the ID "1". The plugin stops at the end of the test.
func New(t testing.TB) *Plugin {
	t.Helper()
	dir, err := os.MkdirTemp("", "signer") // paths of sockets must be short
	if err != nil {
		t.Fatal(err)
	}
	p := &Plugin{Socket: filepath.Join(dir, "s")}
	p.responses = Responses{RefreshHint: 3600, DataTimestamp: timestamppb.Now(), MaxSeconds: int64(MaxExpiration / time.Second)}
	p.Rotate(t, "1")
	listener, err := new(net.ListenConfig).Listen(t.Context(), "unix", p.Socket)
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	api.RegisterExternalJWTSignerServer(server, p)
	done := make(chan error, 1)
	go func() { done <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		if err := errors.Join(<-done, os.RemoveAll(dir)); err != nil {
			t.Error(err)
		}
	})
	return p
}

// SetResponses calls change to modify the responses. It is safe for concurrent use.
func (p *Plugin) SetResponses(change func(*Responses)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change(&p.responses)
}

// Rotate creates a key and makes it the signing key. The previous keys remain valid.
func (p *Plugin) Rotate(t testing.TB, id string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		t.Fatal(err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.key, p.id = key, id
	p.responses.Keys = append(p.responses.Keys, &api.Key{KeyId: id, Key: der})
}

var errRefused = errors.New("refused")

// Sign implements api.ExternalJWTSignerServer.
func (p *Plugin) Sign(_ context.Context, r *api.SignJWTRequest) (*api.SignJWTResponse, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.responses.Fail {
		return nil, errRefused
	}
	payload, err := base64.RawURLEncoding.DecodeString(r.Claims)
	if err != nil {
		return nil, err
	}
	key := jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: p.key, KeyID: p.id}}
	signer, err := jose.NewSigner(key, (&jose.SignerOptions{}).WithType("JWT"))
	if err != nil {
		return nil, err
	}
	signed, err := signer.Sign(payload)
	if err != nil {
		return nil, err
	}
	token, err := signed.CompactSerialize()
	if err != nil {
		return nil, err
	}
	parts := strings.Split(token, ".")
	response := &api.SignJWTResponse{Header: parts[0], Signature: parts[2]}
	if p.responses.Header != "" {
		response.Header = base64.RawURLEncoding.EncodeToString([]byte(p.responses.Header))
	}
	if p.responses.Unsigned {
		response.Signature = ""
	}
	return response, nil
}

// FetchKeys implements api.ExternalJWTSignerServer.
func (p *Plugin) FetchKeys(context.Context, *api.FetchKeysRequest) (*api.FetchKeysResponse, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.responses.Fail {
		return nil, errRefused
	}
	return &api.FetchKeysResponse{Keys: append([]*api.Key(nil), p.responses.Keys...), RefreshHintSeconds: p.responses.RefreshHint, DataTimestamp: p.responses.DataTimestamp}, nil
}

// Metadata implements api.ExternalJWTSignerServer.
func (p *Plugin) Metadata(context.Context, *api.MetadataRequest) (*api.MetadataResponse, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return &api.MetadataResponse{MaxTokenExpirationSeconds: p.responses.MaxSeconds}, nil
}

// MaxExpiration is the maximum lifetime of tokens that a new plugin reports.
const MaxExpiration = 2 * time.Hour
