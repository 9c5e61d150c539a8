// Package externaltest is a program for tests that signs service account tokens: a plugin
// of --service-account-signing-endpoint, in the process of the test.
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

// Answers are the responses of a plugin. They can change while it runs.
type Answers struct {
	Keys        []*api.Key
	RefreshHint int64 // seconds
	At          *timestamppb.Timestamp
	MaxSeconds  int64
	Header      string // of tokens; "": a good one
	Unsigned    bool   // tokens have no signature
	Refuse      bool   // every call fails
}

// Plugin is a running plugin, with one key that signs.
type Plugin struct {
	api.UnimplementedExternalJWTSignerServer
	Socket string

	mu      sync.Mutex
	answers Answers
	key     *ecdsa.PrivateKey
	id      string
}

// New starts a plugin with the key "1", which ends with the test.
func New(t testing.TB) *Plugin {
	t.Helper()
	dir, err := os.MkdirTemp("", "signer") // paths of sockets must be short
	if err != nil {
		t.Fatal(err)
	}
	p := &Plugin{Socket: filepath.Join(dir, "s")}
	p.answers = Answers{RefreshHint: 3600, At: timestamppb.Now(), MaxSeconds: int64(MaxExpiration / time.Second)}
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

// Change modifies the responses of the plugin.
func (p *Plugin) Change(change func(*Answers)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change(&p.answers)
}

// Rotate adds a key, which signs from now on.
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
	p.answers.Keys = append(p.answers.Keys, &api.Key{KeyId: id, Key: der})
}

var errRefused = errors.New("refused")

// Sign implements api.ExternalJWTSignerServer.
func (p *Plugin) Sign(_ context.Context, r *api.SignJWTRequest) (*api.SignJWTResponse, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.answers.Refuse {
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
	answer := &api.SignJWTResponse{Header: parts[0], Signature: parts[2]}
	if p.answers.Header != "" {
		answer.Header = base64.RawURLEncoding.EncodeToString([]byte(p.answers.Header))
	}
	if p.answers.Unsigned {
		answer.Signature = ""
	}
	return answer, nil
}

// FetchKeys implements api.ExternalJWTSignerServer.
func (p *Plugin) FetchKeys(context.Context, *api.FetchKeysRequest) (*api.FetchKeysResponse, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.answers.Refuse {
		return nil, errRefused
	}
	return &api.FetchKeysResponse{Keys: append([]*api.Key(nil), p.answers.Keys...), RefreshHintSeconds: p.answers.RefreshHint, DataTimestamp: p.answers.At}, nil
}

// Metadata implements api.ExternalJWTSignerServer.
func (p *Plugin) Metadata(context.Context, *api.MetadataRequest) (*api.MetadataResponse, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return &api.MetadataResponse{MaxTokenExpirationSeconds: p.answers.MaxSeconds}, nil
}

// MaxExpiration is how long the tokens of a new plugin may last.
const MaxExpiration = 2 * time.Hour
