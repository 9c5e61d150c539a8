package oidc

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
	"golang.org/x/sync/singleflight"
	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/utils/lru"

	"mainstay.dev/mainstay/internal/egress"
)

const (
	// distributedTTL is the cache lifetime of distributed claims. It equals the lifetime of cached
	// tokens in kube-apiserver.
	distributedTTL = 10 * time.Second
	// maxCachedClaims is the maximum number of cached claims, and maxDistributedIssuers the maximum
	// number of issuers with cached keys.
	maxCachedClaims       = 1024
	maxDistributedIssuers = 16
)

// distributedClaims fetches the groups of users with distributed claims (OpenID Connect Core,
// section 5.6.2): the token refers to another token with the groups, possibly of another issuer. A
// nil *distributedClaims fetches no groups. It is safe for concurrent use.
type distributedClaims struct {
	claim  string
	client *http.Client // the client of the provider
	verify func(context.Context, *keySet, *jose.JSONWebSignature) (map[string]any, error)

	cache   *cache.LRUExpireCache // values of the claim, by source.key
	calls   singleflight.Group
	mu      sync.Mutex // prevents the creation of two key sets for an issuer
	issuers *lru.Cache // *keySet by issuer
}

// newDistributed returns nil unless groups are mapped from a claim. As in kube-apiserver, no other
// distributed claim is fetched.
func newDistributed(a *Authenticator, p *provider) *distributedClaims {
	claim := a.ClaimMappings.Groups.Claim
	if claim == "" {
		return nil
	}
	return &distributedClaims{
		claim: claim, client: p.keys.client, verify: p.verify,
		cache: cache.NewLRUExpireCache(maxCachedClaims), issuers: lru.New(maxDistributedIssuers),
	}
}

// expand adds the groups claim to claims if claims contain only a reference to it.
func (d *distributedClaims) expand(ctx context.Context, claims map[string]any) error {
	if d == nil {
		return nil
	}
	if _, there := claims[d.claim]; there {
		return nil
	}
	from, err := d.source(claims)
	if from == nil || err != nil {
		return err
	}
	key := from.key()
	if value, ok := d.cache.Get(key); ok {
		claims[d.claim] = value
		return nil
	}
	value, err := egress.Share(ctx, &d.calls, string(key[:]), func(ctx context.Context) (any, error) { return d.fetch(ctx, from) })
	if err != nil {
		return err
	}
	d.cache.Add(key, value, distributedTTL)
	claims[d.claim] = value
	return nil
}

// source is the location of a distributed claim.
type source struct{ endpoint, accessToken string }

func (s *source) key() [sha256.Size]byte {
	return sha256.Sum256(fmt.Appendf(nil, "%q %q", s.endpoint, s.accessToken))
}

// source returns the location of the claim, or nil if claims contain no reference to it. Aggregated
// claims, which are embedded in the token, are not supported.
func (d *distributedClaims) source(claims map[string]any) (*source, error) {
	if claims["_claim_names"] == nil {
		return nil, nil
	}
	names, ok := claims["_claim_names"].(map[string]any)
	if !ok {
		return nil, fmt.Errorf("oidc: error parsing distributed claim names: it is a %T", claims["_claim_names"])
	}
	if claims["_claim_sources"] == nil {
		return nil, errors.New("oidc: no claim sources")
	}
	sources, ok := claims["_claim_sources"].(map[string]any)
	if !ok {
		return nil, fmt.Errorf("oidc: could not parse claim sources: it is a %T", claims["_claim_sources"])
	}
	if names[d.claim] == nil {
		return nil, nil
	}
	name, _ := names[d.claim].(string)
	found, ok := sources[name].(map[string]any)
	if !ok {
		return nil, fmt.Errorf("id token _claim_names contained a source %s missing in _claims_sources", name)
	}
	endpoint, _ := found["endpoint"].(string)
	if endpoint == "" {
		return nil, nil
	}
	accessToken, _ := found["access_token"].(string)
	return &source{endpoint, accessToken}, nil
}

// fetch downloads the token of a source, verifies it and returns the value of the claim.
func (d *distributedClaims) fetch(ctx context.Context, from *source) (any, error) {
	header := http.Header{}
	if from.accessToken != "" {
		header.Set("Authorization", "Bearer "+from.accessToken)
	}
	if err := requireHTTPS(from.endpoint); err != nil {
		return nil, fmt.Errorf("while getting distributed claim %q: %w", d.claim, err)
	}
	body, err := download(ctx, d.client, from.endpoint, header)
	if err != nil {
		return nil, fmt.Errorf("while getting distributed claim %q: %w", d.claim, err)
	}
	token, issuer, err := parseIssued(strings.TrimSpace(string(body)))
	if err != nil {
		return nil, fmt.Errorf("getting untrusted issuer from endpoint %s failed for claim %q: %w", from.endpoint, d.claim, err)
	}
	if err := requireHTTPS(issuer); err != nil {
		return nil, fmt.Errorf("verifying untrusted issuer %s failed: %w", issuer, err)
	}
	claims, err := d.verify(ctx, d.keySetOf(issuer), token)
	if err != nil {
		return nil, fmt.Errorf("verify distributed claim token: %w", err)
	}
	value, ok := claims[d.claim]
	if !ok {
		return nil, fmt.Errorf("jwt returned by distributed claim endpoint %q did not contain claim: %v", from.endpoint, d.claim)
	}
	return value, nil
}

// requireHTTPS returns an error for a URL that does not use https. kube-apiserver accepts such URLs.
func requireHTTPS(url string) error {
	if !strings.HasPrefix(url, "https://") {
		return fmt.Errorf("%s is not an https URL", url)
	}
	return nil
}

// keySetOf returns the cached key set of an issuer, or a new one that is fetched at first use. The
// number of cached key sets is limited, because the issuers depend on the responses of claim
// sources, not on the configuration.
func (d *distributedClaims) keySetOf(issuer string) *keySet {
	d.mu.Lock()
	defer d.mu.Unlock()
	if known, ok := d.issuers.Get(issuer); ok {
		return known.(*keySet)
	}
	k := newKeySet(d.client, issuer, "", func(error) {}) // only fetches of the provider's own keys are counted
	d.issuers.Add(issuer, k)
	return k
}
