// Package external uses the service account keys of a plugin. The plugin is another process, which
// signs tokens and returns the valid keys over a unix domain socket (the gRPC service
// ExternalJWTSigner of k8s.io/externaljwt, flag --service-account-signing-endpoint, KEP-740).
package external

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"math"
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
	"mainstay.dev/mainstay/internal/filters/authn/serviceaccount"
)

// Limits and intervals, with the same values as in kube-apiserver.
const (
	fetchTimeout    = time.Minute
	metadataTimeout = 10 * time.Second
	retryInterval   = 10 * time.Second // after a failed fetch
	minLifetime     = 600              // seconds
	maxKeyID        = 1 << 10
)

// Config configures Keys. Logger is required; Metrics may be nil.
type Config struct {
	Socket  string // path of the unix domain socket
	Metrics *Metrics
	Logger  *slog.Logger
}

// Keys implements serviceaccount.Keys with a plugin. It fetches the valid keys at the interval that
// the plugin specifies, and when a token has an unknown key ID. If a fetch fails, the previous keys
// remain valid. It is safe for concurrent use. The caller must call Close.
type Keys struct {
	config      Config
	conn        *grpc.ClientConn
	client      api.ExternalJWTSignerClient
	maxLifetime time.Duration

	current atomic.Pointer[keySet]
	calls   singleflight.Group

	stop    context.CancelFunc
	running sync.WaitGroup
}

var _ serviceaccount.Keys = (*Keys)(nil)

// keySet is the result of a fetch.
type keySet struct {
	generation uint64
	response   []*api.Key
	all        []jose.JSONWebKey
	published  []jose.JSONWebKey // keys that are not excluded from OIDC discovery
	dataTime   time.Time         // data timestamp in the plugin's response
	refreshAt  time.Time         // time of the next fetch
}

// Open connects to the plugin and blocks until it has fetched the keys. It returns an error if the
// plugin does not respond within a minute, or returns invalid data. The refresh continues after ctx
// is done, until Close.
func Open(ctx context.Context, config Config) (*Keys, error) {
	k := &Keys{config: config}
	k.current.Store(&keySet{})
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

// start fetches the keys and the maximum lifetime of tokens.
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
	k.maxLifetime = durationOf(metadata.MaxTokenExpirationSeconds)
	return nil
}

// durationOf converts a number of seconds. A number that exceeds time.Duration, such as math.MaxInt64 for "no
// limit", results in the longest duration in seconds: 292 years.
func durationOf(seconds int64) time.Duration {
	return time.Duration(min(seconds, int64(math.MaxInt64/time.Second))) * time.Second
}

// Close stops the refresh, waits for it, and closes the connection. It returns the error of closing
// the connection.
func (k *Keys) Close() error {
	k.stop()
	k.running.Wait()
	return k.conn.Close()
}

// MaxLifetime returns the maximum lifetime of a token that the plugin reported to Open.
func (k *Keys) MaxLifetime() time.Duration { return k.maxLifetime }

// Generation implements serviceaccount.Keys.
func (k *Keys) Generation() uint64 { return k.current.Load().generation }

// Published implements serviceaccount.Keys.
func (k *Keys) Published() serviceaccount.Published {
	now := k.current.Load()
	return serviceaccount.Published{Keys: now.published, MaxAge: max(0, time.Until(now.refreshAt))}
}

// Verify implements serviceaccount.Keys.
func (k *Keys) Verify(ctx context.Context, token *serviceaccount.Token) (*serviceaccount.Claims, error) {
	return token.Verify(k.keySetFor(ctx, token.KeyID()).all)
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
	response, err := k.client.Sign(ctx, &api.SignJWTRequest{Claims: encoded})
	if err != nil {
		return "", fmt.Errorf("while signing jwt: %w", err)
	}
	if err := k.checkHeader(ctx, response.Header); err != nil {
		return "", fmt.Errorf("while validating header: %w", err)
	}
	if response.Signature == "" {
		return "", errors.New("empty signature returned")
	}
	return response.Header + "." + encoded + "." + response.Signature, nil
}

// keySetFor returns the current keys. If they do not include the ID, it fetches the keys first. If
// the fetch fails, it logs the error and returns the previous keys.
func (k *Keys) keySetFor(ctx context.Context, id string) *keySet {
	now := k.current.Load()
	if id == "" || now.has(id) {
		return now
	}
	if err := k.fetch(ctx); err != nil {
		k.config.Logger.Error("failed to fetch service account keys from the plugin", "err", err)
	}
	return k.current.Load()
}

func (s *keySet) has(id string) bool {
	return slices.ContainsFunc(s.all, func(key jose.JSONWebKey) bool { return key.KeyID == id })
}

// refresh fetches the keys at the interval that the plugin specifies, until ctx is done.
func (k *Keys) refresh(ctx context.Context) {
	wait := time.Until(k.current.Load().refreshAt)
	for {
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return
		}
		err := k.fetch(ctx)
		wait = time.Until(k.current.Load().refreshAt)
		if err != nil && ctx.Err() == nil {
			k.config.Logger.Error("failed to fetch service account keys from the plugin; the previous keys remain valid", "err", err)
			wait = retryInterval
		}
	}
}

// fetch fetches the keys from the plugin and sets them as the current keys. Concurrent callers share one call
// to the plugin.
func (k *Keys) fetch(ctx context.Context) error {
	_, err := egress.Share(ctx, &k.calls, "", func(ctx context.Context) (*keySet, error) {
		ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
		defer cancel()
		next, err := k.fetchKeySet(ctx)
		k.config.Metrics.fetched(next, err)
		if err != nil {
			return nil, fmt.Errorf("while fetching token verification keys: %w", err)
		}
		last := k.current.Load()
		if next.generation = last.generation; !slices.EqualFunc(last.response, next.response, sameKey) {
			next.generation++
		}
		k.current.Store(next)
		return next, nil
	})
	return err
}

func (k *Keys) fetchKeySet(ctx context.Context) (*keySet, error) {
	response, err := k.client.FetchKeys(ctx, &api.FetchKeysRequest{})
	if err != nil {
		return nil, fmt.Errorf("while getting externally supported jwt signing keys: %w", err)
	}
	if response.RefreshHintSeconds <= 0 {
		return nil, fmt.Errorf("found invalid refresh hint (%ds)", response.RefreshHintSeconds)
	}
	if len(response.Keys) == 0 {
		return nil, errors.New("found no keys")
	}
	if err := response.DataTimestamp.CheckValid(); err != nil {
		return nil, fmt.Errorf("invalid data timestamp: %w", err)
	}
	set := &keySet{response: response.Keys, dataTime: response.DataTimestamp.AsTime(), refreshAt: time.Now().Add(durationOf(response.RefreshHintSeconds))}
	for _, one := range response.Keys {
		key, err := parseKey(one)
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

// parseKey validates and converts a key of the plugin.
func parseKey(key *api.Key) (jose.JSONWebKey, error) {
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
	return serviceaccount.JSONWebKey(public, key.KeyId)
}
