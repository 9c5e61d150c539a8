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
	// distributedFor is how long a distributed claim is remembered: as long as
	// kube-apiserver remembers a token that was good.
	distributedFor = 10 * time.Second
	// maxDistributed bounds how many claims are remembered, maxDistributedIssuers of how
	// many issuers the keys.
	maxDistributed        = 1024
	maxDistributedIssuers = 16
)

// distributed fetches the groups of users with distributed claims (OpenID Connect Core, section
// 5.6.2): the token refers to another token, possibly of another issuer. A nil *distributed fetches
// no groups. It is safe for concurrent use.
type distributed struct {
	claim  string
	client *http.Client // the provider's
	verify func(context.Context, *keys, *jose.JSONWebSignature) (map[string]any, error)

	answers *cache.LRUExpireCache // values of the claim, by source.key
	calls   singleflight.Group
	mu      sync.Mutex // guards that an issuer's keys are made once
	issuers *lru.Cache // *keys, by issuer
}

// newDistributed returns nil where groups are not mapped by the name of a claim. As in
// kube-apiserver no other claim is fetched.
func newDistributed(a *Authenticator, p *provider) *distributed {
	claim := a.ClaimMappings.Groups.Claim
	if claim == "" {
		return nil
	}
	return &distributed{
		claim: claim, client: p.keys.client, verify: p.verify,
		answers: cache.NewLRUExpireCache(maxDistributed), issuers: lru.New(maxDistributedIssuers),
	}
}

// expand resolves the claim of a token with a reference.
func (d *distributed) expand(ctx context.Context, claims map[string]any) error {
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
	if value, ok := d.answers.Get(key); ok {
		claims[d.claim] = value
		return nil
	}
	value, err := egress.Share(ctx, &d.calls, string(key[:]), func(ctx context.Context) (any, error) { return d.fetch(ctx, from) })
	if err != nil {
		return err
	}
	d.answers.Add(key, value, distributedFor)
	claims[d.claim] = value
	return nil
}

// source is where a claim is.
type source struct{ endpoint, accessToken string }

func (s *source) key() [sha256.Size]byte {
	return sha256.Sum256(fmt.Appendf(nil, "%q %q", s.endpoint, s.accessToken))
}

// source returns the location of the claim; nil without a reference. Aggregated claims, which the
// token contains in another token, are not supported.
func (d *distributed) source(claims map[string]any) (*source, error) {
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

// fetch returns the value of the claim in the token of a source.
func (d *distributed) fetch(ctx context.Context, from *source) (any, error) {
	header := http.Header{}
	if from.accessToken != "" {
		header.Set("Authorization", "Bearer "+from.accessToken)
	}
	if err := mustBeHTTPS(from.endpoint); err != nil {
		return nil, fmt.Errorf("while getting distributed claim %q: %w", d.claim, err)
	}
	answer, err := download(ctx, d.client, from.endpoint, header)
	if err != nil {
		return nil, fmt.Errorf("while getting distributed claim %q: %w", d.claim, err)
	}
	token, issuer, err := parseIssued(strings.TrimSpace(string(answer)))
	if err != nil {
		return nil, fmt.Errorf("getting untrusted issuer from endpoint %s failed for claim %q: %w", from.endpoint, d.claim, err)
	}
	if err := mustBeHTTPS(issuer); err != nil {
		return nil, fmt.Errorf("verifying untrusted issuer %s failed: %w", issuer, err)
	}
	claims, err := d.verify(ctx, d.keysOf(issuer), token)
	if err != nil {
		return nil, fmt.Errorf("verify distributed claim token: %w", err)
	}
	value, ok := claims[d.claim]
	if !ok {
		return nil, fmt.Errorf("jwt returned by distributed claim endpoint %q did not contain claim: %v", from.endpoint, d.claim)
	}
	return value, nil
}

// mustBeHTTPS rejects insecure URLs, which kube-apiserver accepts.
func mustBeHTTPS(url string) error {
	if !strings.HasPrefix(url, "https://") {
		return fmt.Errorf("%s is no https URL", url)
	}
	return nil
}

// keysOf returns the keys of an issuer, which are fetched at first use. The source, which is the
// provider's, determines the issuer.
func (d *distributed) keysOf(issuer string) *keys {
	d.mu.Lock()
	defer d.mu.Unlock()
	if known, ok := d.issuers.Get(issuer); ok {
		return known.(*keys)
	}
	k := keysFrom(d.client, issuer, "", func(error) {}) // its metrics are the provider's
	d.issuers.Add(issuer, k)
	return k
}
