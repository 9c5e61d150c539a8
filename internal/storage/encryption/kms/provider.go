// Package kms encrypts stored values with keys of a key management service. It implements KMS v2 of
// Kubernetes (KEP-3299), in which a plugin with a gRPC API on a unix socket calls the service. The plugin
// encrypts a seed. Values are encrypted here, each with a key derived from the seed, and stored with the
// encrypted seed in kube-apiserver's format. Writes do not call the plugin; reads do so only for seeds that
// are not cached.
//
//   - provider: the current seed, its replacement when the plugin's key changes, and its expiry when the plugin
//     does not respond.
//   - envelope: the stored message.
//   - plugin: the calls.
package kms

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/singleflight"
	"google.golang.org/protobuf/encoding/protowire"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	api "k8s.io/kms/apis/v2"
	"k8s.io/utils/lru"

	"mainstay.dev/mainstay/internal/storage/encryption/aes"
)

// These durations are the same as kube-apiserver's. The seed remains valid for writes for seedLifetime after
// the last status response. After this time, no server writes with the previous key of the plugin.
const (
	healthyInterval   = time.Minute
	unhealthyInterval = 10 * time.Second
	seedLifetime      = 3 * time.Minute
	// healthyTTL and unhealthyTTL are the times for which the result of a health check is cached.
	healthyTTL   = 20 * time.Second
	unhealthyTTL = 3 * time.Second
)

// maxSources is the maximum number of cached seeds and keys.
const maxSources = 1000

// Config describes a Provider.
type Config struct {
	// Name is the name of the plugin in the configuration, for metrics and errors.
	Name     string
	Endpoint string        // unix:///path
	Timeout  time.Duration // timeout of each call
	Metrics  *Metrics      // nil disables metrics
	Logger   *slog.Logger  // nil discards
	// now replaces the clock in tests; nil means time.Now.
	now func() time.Time
}

// Provider encrypts values with the key of a plugin. It is safe for concurrent use. The caller must start Run
// or call Check regularly, because writes fail if the plugin has returned no status for three minutes.
type Provider struct {
	name    string
	plugin  *plugin
	metrics *Metrics
	log     *slog.Logger
	now     func() time.Time

	current atomic.Pointer[state] // nil before the first response of the plugin
	sources *lru.Cache            // *source by digest
	calls   singleflight.Group    // decryptions, by digest

	mu struct {
		sync.Mutex
		version string // version of the plugin's API in its first response
		// checkedAt is the time of the last health check, err its result, which is valid for ttl.
		checkedAt time.Time
		ttl       time.Duration
		err       error
	}
}

// opener decrypts the values of one key or seed.
type opener interface {
	Open(data, key []byte) ([]byte, error)
}

// source is a decrypted key or seed.
type source struct {
	opener
	keyHash string
}

// state is the current seed. It is immutable.
type state struct {
	seed    *aes.SeededGCM
	keyID   string
	keyHash string
	// tail is the data after each value.
	tail    []byte
	expires time.Time
}

// New returns a Provider. It does no I/O; the first call connects to the plugin. The error reports an
// invalid endpoint.
func New(cfg Config) (*Provider, error) {
	plugin, err := dial(&cfg)
	if err != nil {
		return nil, fmt.Errorf("could not configure KMSv2-Plugin's probe %q, error: %w", cfg.Name, err)
	}
	p := &Provider{name: cfg.Name, plugin: plugin, metrics: cfg.Metrics, log: cfg.Logger, now: cfg.now, sources: lru.New(maxSources)}
	if p.log == nil {
		p.log = slog.New(slog.DiscardHandler)
	}
	if p.now == nil {
		p.now = time.Now
	}
	return p, nil
}

// Run calls Check periodically until ctx ends, and then closes the connection. It returns nil. The
// first check is delayed, because callers call Check before Run.
func (p *Provider) Run(ctx context.Context) error {
	defer p.Close()
	var last error
	for wait := healthyInterval; ; {
		if p.lastError() != nil {
			wait = unhealthyInterval
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-timer.C:
		}
		err := p.Check(ctx)
		if wait = healthyInterval; err != nil && last == nil {
			p.log.Warn("KMS plugin is not healthy: reads continue with cached keys, writes for up to three minutes", "provider", p.name, "err", err)
		}
		last = err
	}
}

// Close closes the connection to the plugin. Later calls to the plugin fail.
func (p *Provider) Close() { _ = p.plugin.conn.Close() }

func (p *Provider) lastError() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mu.err
}

// Check calls the plugin for its health and key ID, and encrypts a new seed if the key ID has changed. If a
// recent result is cached, Check returns it without a call. It blocks for at most the timeout of two calls,
// even if ctx ends. The error has kube-apiserver's text.
func (p *Provider) Check(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if time.Since(p.mu.checkedAt) < p.mu.ttl {
		return p.mu.err
	}
	err := p.callStatusLocked(context.WithoutCancel(ctx)) // other callers also use the result
	p.mu.checkedAt, p.mu.err, p.mu.ttl = time.Now(), err, healthyTTL
	if err != nil {
		p.mu.ttl = unhealthyTTL
	}
	return err
}

func (p *Provider) callStatusLocked(ctx context.Context) error {
	status, err := p.plugin.status(ctx)
	if err != nil {
		return fmt.Errorf("failed to perform status section of the healthz check for KMS Provider %s, error: %w", p.name, err)
	}
	errs := append(p.checkStatusLocked(status), p.applyKeyID(ctx, status.KeyId))
	if err := utilerrors.Reduce(utilerrors.NewAggregate(errs)); err != nil {
		return fmt.Errorf("kmsv2 Provider %s is not healthy, error: %w", p.name, err)
	}
	return nil
}

// checkStatusLocked returns the errors that the plugin reports, and errors in its response.
func (p *Provider) checkStatusLocked(status *api.StatusResponse) (errs []error) {
	if status.Healthz != "ok" {
		errs = append(errs, fmt.Errorf("got unexpected healthz status: %s", status.Healthz))
	}
	switch version := status.Version; {
	case version != "v2" && version != "v2beta1":
		errs = append(errs, fmt.Errorf("expected KMSv2 API version v2, got %s", version))
	case p.mu.version == "":
		p.mu.version = version
	case p.mu.version != version:
		errs = append(errs, fmt.Errorf("KMSv2 API version should not change after the initial status response version %s, got %s", p.mu.version, version))
	}
	return errs
}

// applyKeyID records the key ID that the plugin reported. If the ID is unchanged, it extends the
// lifetime of the current seed; otherwise it creates a new seed. On error, the current seed stays
// in use.
func (p *Provider) applyKeyID(ctx context.Context, keyID string) error {
	if word, err := checkKeyID(keyID); err != nil {
		p.metrics.keyInvalid(p.name, word)
		return fmt.Errorf("got invalid KMSv2 KeyID hash %q: %w", Hash(keyID), err)
	}
	p.metrics.keyReported(p.name, Hash(keyID))
	expires := p.now().Add(seedLifetime) // before the call, so that the lifetime is an upper bound
	was := p.current.Load()
	if was != nil && was.keyID == keyID {
		renewed := *was
		renewed.expires = expires
		p.current.Store(&renewed)
		return nil
	}
	uid := uuid.NewString()
	next, err := p.newState(ctx, uid, expires)
	if err == nil && next.keyID == keyID {
		p.current.Store(next)
		p.log.Info("KMS plugin has a new key", "provider", p.name, "keyIDHash", next.keyHash)
		return nil
	}
	var encrypted, before string
	var until time.Time
	if next != nil {
		encrypted = next.keyHash
	}
	if was != nil {
		before, until = was.keyHash, was.expires
	}
	return fmt.Errorf("failed to rotate DEK uid=%q, useSeed=true, errGen=%w, statusKeyIDHash=%q, encryptKeyIDHash=%q, stateKeyIDHash=%q, expirationTimestamp=%s",
		uid, orMismatch(err), Hash(keyID), encrypted, before, until.Format(time.RFC3339))
}

var errMismatch = errors.New("the plugin encrypts with a key that differs from the key of its status")

func orMismatch(err error) error {
	if err == nil {
		return errMismatch
	}
	return err
}

// newState creates a seed and encrypts it with the plugin.
func (p *Provider) newState(ctx context.Context, uid string, expires time.Time) (*state, error) {
	start := time.Now()
	seed := make([]byte, aes.SeedSize)
	_, _ = rand.Read(seed) // it never fails
	p.metrics.seedMade(time.Since(start))
	e, err := p.plugin.encrypt(ctx, uid, seed)
	if err != nil {
		return nil, err
	}
	if err := e.check(); err != nil {
		return nil, err
	}
	gcm, err := aes.NewSeededGCM(seed)
	if err != nil {
		return nil, err
	}
	s := &state{seed: gcm, keyID: e.keyID, keyHash: Hash(e.keyID), tail: e.encode(), expires: expires}
	p.cacheSource(e.digest(), &source{gcm, s.keyHash})
	return s, nil
}

func (p *Provider) cacheSource(digest [sha256.Size]byte, s *source) {
	p.sources.Add(digest, s)
	p.metrics.cached(p.name, p.sources.Len())
}

// errNotReady returns the error for calls before the plugin has responded for the first time.
func (p *Provider) errNotReady() error {
	if err := p.lastError(); err != nil {
		return fmt.Errorf("the KMS plugin %s has not responded yet: %w", p.name, err)
	}
	return fmt.Errorf("the KMS plugin %s has not responded yet", p.name)
}

// maxHeader is the maximum size of a value's header, which consists of a tag and a length, in bytes.
const maxHeader = 1 + 10

// Overhead returns the maximum number of bytes by which Seal lengthens a value; 0 before the first
// response of the plugin.
func (p *Provider) Overhead() int {
	if s := p.current.Load(); s != nil {
		return maxHeader + s.seed.Overhead() + len(s.tail)
	}
	return 0
}

// Seal appends the message of an encrypted value to dst. It does not call the plugin. It returns an error if
// the plugin has not responded yet, or if its last valid status response is older than three minutes. The
// storage key is authenticated with the value.
func (p *Provider) Seal(dst, plain, key []byte) ([]byte, error) {
	s := p.current.Load()
	if s == nil {
		return nil, p.errNotReady()
	}
	if now := p.now(); now.After(s.expires) {
		return nil, fmt.Errorf("encryptedDEKSource with keyID hash %q expired at %s (current time is %s)", s.keyHash, s.expires.Format(time.RFC3339), now.Format(time.RFC3339))
	}
	dst = protowire.AppendTag(dst, fieldData, protowire.BytesType)
	dst = protowire.AppendVarint(dst, uint64(len(plain)+s.seed.Overhead()))
	dst, err := s.seed.Seal(dst, plain, key)
	if err != nil {
		return nil, err
	}
	p.metrics.keyUsed(ToStorage, p.name, s.keyHash)
	return append(dst, s.tail...), nil
}

// Open decrypts the result of Seal with the same storage key into new memory. stale reports that the plugin's
// key has changed since Seal, or that the value was encrypted without a seed. Open calls the plugin if the
// seed is not cached, and then blocks until the call returns or ctx ends. It returns an error if data is
// invalid or modified, or if the plugin fails or has not responded yet.
func (p *Provider) Open(ctx context.Context, data, key []byte) (plain []byte, stale bool, err error) {
	value, e, err := decode(data)
	if err != nil {
		return nil, false, err
	}
	s := p.current.Load()
	if s == nil {
		return nil, false, p.errNotReady()
	}
	from, err := p.source(ctx, e)
	if err != nil {
		return nil, false, err
	}
	p.metrics.keyUsed(FromStorage, p.name, from.keyHash)
	plain, err = from.Open(value, key)
	return plain, e.keyID != s.keyID || e.sourceType != sourceSeed, err
}

// source returns the key or seed of an envelope, from the cache or decrypted by the plugin.
// Concurrent calls for the same envelope share one plugin call, which continues if ctx ends.
func (p *Provider) source(ctx context.Context, e *envelope) (*source, error) {
	digest := e.digest()
	if known, ok := p.sources.Get(digest); ok {
		return known.(*source), nil
	}
	p.metrics.missed()
	called := p.calls.DoChan(string(digest[:]), func() (any, error) {
		plain, err := p.plugin.decrypt(context.WithoutCancel(ctx), uuid.NewString(), e)
		if err != nil {
			return nil, err
		}
		from := &source{keyHash: Hash(e.keyID)}
		if e.sourceType == sourceSeed {
			from.opener, err = aes.NewSeededGCM(plain)
		} else {
			from.opener, err = aes.NewGCM(plain)
		}
		if err != nil {
			return nil, err
		}
		p.cacheSource(digest, from)
		return from, nil
	})
	select {
	case result := <-called:
		if result.Err != nil {
			return nil, result.Err
		}
		return result.Val.(*source), nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
