// Package external uses service account keys of another program: a plugin on a unix domain socket
// that signs tokens and returns the valid keys (ExternalJWTSigner of k8s.io/externaljwt,
// --service-account-signing-endpoint).
package external

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-jose/go-jose/v4"
	"golang.org/x/sync/singleflight"
	"google.golang.org/grpc"
	api "k8s.io/externaljwt/apis/v1"

	"mainstay.dev/mainstay/internal/egress"
	"mainstay.dev/mainstay/internal/egress/socket"
	"mainstay.dev/mainstay/internal/serviceaccount"
)

// Limits, as kube-apiserver's.
const (
	fetchTimeout    = time.Minute
	metadataTimeout = 10 * time.Second
	retryInterval   = 10 * time.Second // after a fetch that failed
	minLifetime     = 600              // seconds
	maxKeyID        = 1 << 10
)

// Config configures Keys.
type Config struct {
	Socket  string // a path
	Metrics *Metrics
	Logger  *slog.Logger
}

// Keys are the keys of a plugin. The server fetches the valid keys at the plugin's interval, and
// for tokens with an unknown key; if that fails, the last keys stay valid. The caller must call
// Close.
type Keys struct {
	config      Config
	conn        *grpc.ClientConn
	client      api.ExternalJWTSignerClient
	maxLifetime time.Duration

	now   atomic.Pointer[keySet]
	calls singleflight.Group

	stop    context.CancelFunc
	running sync.WaitGroup
}

var _ serviceaccount.Keys = (*Keys)(nil)

// keySet is the result of a fetch.
type keySet struct {
	generation uint64
	answered   []*api.Key
	all        []jose.JSONWebKey
	published  []jose.JSONWebKey // the signing keys
	at         time.Time         // when the plugin had them
	until      time.Time         // when they are to be fetched again
}

// Open waits for the plugin and returns its keys.
func Open(ctx context.Context, config Config) (*Keys, error) {
	k := &Keys{config: config}
	k.now.Store(&keySet{})
	var err error
	if k.conn, err = socket.Dial(config.Socket, config.Metrics.called); err != nil {
		return nil, fmt.Errorf("while setting up external-jwt-signer: %w", err)
	}
	k.client = api.NewExternalJWTSignerClient(k.conn)
	if err := k.start(ctx); err != nil {
		return nil, errors.Join(err, k.conn.Close())
	}
	ctx, k.stop = context.WithCancel(context.WithoutCancel(ctx))
	k.running.Go(func() { k.refresh(ctx) })
	return k, nil
}

// start fetches the keys, and how long tokens may last.
func (k *Keys) start(ctx context.Context) error {
	if err := k.fetch(ctx); err != nil {
		return fmt.Errorf("while setting up external-jwt-signer: while initially filling key cache: while performing initial cache fill: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, metadataTimeout)
	defer cancel()
	metadata, err := k.client.Metadata(ctx, &api.MetadataRequest{})
	if err != nil {
		return fmt.Errorf("while setting up external-jwt-signer: %w", err)
	}
	if seconds := metadata.MaxTokenExpirationSeconds; seconds < minLifetime {
		return fmt.Errorf("max token life supported by external-jwt-signer (%ds) is less than acceptable (min %ds)", seconds, minLifetime)
	}
	k.maxLifetime = time.Duration(metadata.MaxTokenExpirationSeconds) * time.Second
	return nil
}

// Close ends the connection.
func (k *Keys) Close() error {
	k.stop()
	k.running.Wait()
	return k.conn.Close()
}

// MaxLifetime is how long a token may last.
func (k *Keys) MaxLifetime() time.Duration { return k.maxLifetime }

// Generation implements serviceaccount.Keys.
func (k *Keys) Generation() uint64 { return k.now.Load().generation }

// Published implements serviceaccount.Keys.
func (k *Keys) Published() serviceaccount.Published {
	now := k.now.Load()
	return serviceaccount.Published{Keys: now.published, MaxAge: max(0, time.Until(now.until))}
}

// Verify implements serviceaccount.Keys.
func (k *Keys) Verify(ctx context.Context, token *serviceaccount.Token) (*serviceaccount.Claims, error) {
	return token.Verify(k.with(ctx, token.KeyID()).all)
}

// Sign implements serviceaccount.Keys.
func (k *Keys) Sign(ctx context.Context, claims *serviceaccount.Claims) (string, error) {
	token, err := k.sign(ctx, claims)
	k.config.Metrics.signed(err)
	return token, err
}

func (k *Keys) sign(ctx context.Context, claims *serviceaccount.Claims) (string, error) {
	payload, err := claims.Encode()
	if err != nil {
		return "", err
	}
	encoded := base64.RawURLEncoding.EncodeToString(payload)
	answer, err := k.client.Sign(ctx, &api.SignJWTRequest{Claims: encoded})
	if err != nil {
		return "", fmt.Errorf("while signing jwt: %w", err)
	}
	if err := k.checkHeader(ctx, answer.Header); err != nil {
		return "", fmt.Errorf("while validating header: %w", err)
	}
	if answer.Signature == "" {
		return "", errors.New("empty signature returned")
	}
	return answer.Header + "." + encoded + "." + answer.Signature, nil
}

// with returns the keys, and fetches them if the ID is unknown.
func (k *Keys) with(ctx context.Context, id string) *keySet {
	now := k.now.Load()
	if id == "" || now.has(id) {
		return now
	}
	if err := k.fetch(ctx); err != nil {
		k.config.Logger.Error("the keys of service account tokens cannot be fetched from their plugin", "err", err)
	}
	return k.now.Load()
}

func (s *keySet) has(id string) bool {
	return slices.ContainsFunc(s.all, func(key jose.JSONWebKey) bool { return key.KeyID == id })
}

// refresh fetches the keys at the plugin's interval.
func (k *Keys) refresh(ctx context.Context) {
	wait := time.Until(k.now.Load().until)
	for {
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return
		}
		err := k.fetch(ctx)
		wait = time.Until(k.now.Load().until)
		if err != nil && ctx.Err() == nil {
			k.config.Logger.Error("the service account token keys cannot be fetched from the plugin: the previous keys remain valid", "err", err)
			wait = retryInterval
		}
	}
}

// fetch fetches the keys of the plugin. Concurrent callers share a call.
func (k *Keys) fetch(ctx context.Context) error {
	_, err := egress.Share(ctx, &k.calls, "", func(ctx context.Context) (*keySet, error) {
		ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
		defer cancel()
		next, err := k.ask(ctx)
		k.config.Metrics.fetched(next, err)
		if err != nil {
			return nil, fmt.Errorf("while fetching token verification keys: %w", err)
		}
		last := k.now.Load()
		if next.generation = last.generation; !slices.EqualFunc(last.answered, next.answered, sameKey) {
			next.generation++
		}
		k.now.Store(next)
		return next, nil
	})
	return err
}

func (k *Keys) ask(ctx context.Context) (*keySet, error) {
	answer, err := k.client.FetchKeys(ctx, &api.FetchKeysRequest{})
	if err != nil {
		return nil, fmt.Errorf("while getting externally supported jwt signing keys: %w", err)
	}
	if answer.RefreshHintSeconds <= 0 {
		return nil, fmt.Errorf("found invalid refresh hint (%ds)", answer.RefreshHintSeconds)
	}
	if len(answer.Keys) == 0 {
		return nil, errors.New("found no keys")
	}
	if err := answer.DataTimestamp.CheckValid(); err != nil {
		return nil, fmt.Errorf("invalid data timestamp: %w", err)
	}
	set := &keySet{answered: answer.Keys, at: answer.DataTimestamp.AsTime(), until: time.Now().Add(time.Duration(answer.RefreshHintSeconds) * time.Second)}
	for _, one := range answer.Keys {
		key, err := webKey(one)
		if err != nil {
			return nil, err
		}
		set.all = append(set.all, key)
		if !one.ExcludeFromOidcDiscovery {
			set.published = append(set.published, key)
		}
	}
	return set, nil
}

func sameKey(a, b *api.Key) bool {
	return a.KeyId == b.KeyId && bytes.Equal(a.Key, b.Key) && a.ExcludeFromOidcDiscovery == b.ExcludeFromOidcDiscovery
}

// webKey reads a key of a plugin's answer.
func webKey(key *api.Key) (jose.JSONWebKey, error) {
	switch {
	case key == nil:
		return jose.JSONWebKey{}, errors.New("found nil public key")
	case key.KeyId == "" || len(key.KeyId) > maxKeyID:
		return jose.JSONWebKey{}, fmt.Errorf("found invalid public key id %q", key.KeyId)
	case len(key.Key) == 0:
		return jose.JSONWebKey{}, errors.New("found empty public key")
	}
	public, err := x509.ParsePKIXPublicKey(key.Key)
	if err != nil {
		return jose.JSONWebKey{}, fmt.Errorf("while parsing external public keys: %w", err)
	}
	return serviceaccount.WebKey(public, key.KeyId)
}
