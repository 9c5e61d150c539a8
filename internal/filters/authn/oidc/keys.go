package oidc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-jose/go-jose/v4"
	"golang.org/x/sync/singleflight"

	"mainstay.dev/mainstay/internal/egress"
)

// Limits of requests to a provider. maxDocument is in bytes.
const (
	fetchTimeout = 10 * time.Second
	maxDocument  = 1 << 20
	// minRefetchInterval is the minimum time between fetches for tokens with unknown keys. Without it,
	// clients could cause an unlimited number of requests to the provider.
	minRefetchInterval = 10 * time.Second
)

// errNotReady is the error for all tokens until keys have been fetched from the provider.
var errNotReady = errors.New("oidc: authenticator not initialized")

// keySet contains the public keys of a provider. They are fetched for the first token, and for
// tokens with unknown keys. It is safe for concurrent use.
type keySet struct {
	issuer, discoveryURL string
	client               *http.Client
	fetched              atomic.Pointer[fetchResult]
	discovered           atomic.Pointer[discovery] // nil until the discovery document was read
	calls                singleflight.Group
	onFetch              func(error)
}

// fetchResult is the result of the last fetch. Its keys are from the last successful fetch.
type fetchResult struct {
	keys []jose.JSONWebKey
	err  error
	at   time.Time
}

func newProviderKeySet(issuer *Issuer, networks egress.Networks, onFetch func(error)) (*keySet, error) {
	u, err := url.Parse(issuer.URL)
	if err != nil {
		return nil, err
	}
	transport, err := (&egress.Target{URL: u, CABundle: []byte(issuer.CertificateAuthority), Dial: issuer.dial(networks)}).Transport()
	if err != nil {
		return nil, err
	}
	return newKeySet(&http.Client{Transport: transport, Timeout: fetchTimeout}, issuer.URL, issuer.DiscoveryURL, onFetch), nil
}

// newKeySet returns an empty key set of an issuer. An empty discoveryURL selects the standard path
// below the issuer. onFetch is called after each fetch with its error.
func newKeySet(client *http.Client, issuer, discoveryURL string, onFetch func(error)) *keySet {
	if discoveryURL == "" {
		discoveryURL = strings.TrimSuffix(issuer, "/") + "/.well-known/openid-configuration"
	}
	k := &keySet{issuer: issuer, discoveryURL: discoveryURL, client: client, onFetch: onFetch}
	k.fetched.Store(&fetchResult{})
	return k
}

// dial returns the dialer of the selected network, or nil for a direct connection.
func (issuer *Issuer) dial(networks egress.Networks) egress.Dial {
	switch issuer.EgressSelectorType {
	case egressControlPlane:
		return networks.ControlPlane
	case egressCluster:
		return networks.Cluster
	}
	return nil
}

// verify returns the payload of a token, or an error if the token is not signed with one of the
// keys. It fetches the keys if necessary.
func (k *keySet) verify(ctx context.Context, token *jose.JSONWebSignature) ([]byte, error) {
	now := k.fetched.Load()
	if payload, ok := verifyWith(now.keys, token); ok {
		return payload, nil
	}
	now, err := k.refetch(ctx, now)
	if err != nil {
		return nil, err
	}
	if len(now.keys) == 0 {
		return nil, errors.Join(errNotReady, now.err)
	}
	payload, ok := verifyWith(now.keys, token)
	if !ok {
		return nil, errors.New("oidc: verify token: failed to verify signature: failed to verify id token signature")
	}
	return payload, nil
}

func verifyWith(known []jose.JSONWebKey, token *jose.JSONWebSignature) ([]byte, bool) {
	id := token.Signatures[0].Header.KeyID
	for i := range known {
		if key := &known[i]; id == "" || key.KeyID == id {
			if payload, err := token.Verify(key); err == nil {
				return payload, true
			}
		}
	}
	return nil, false
}

// refetch fetches the keys, unless they have been fetched since seen or the last fetch was too recent. It
// returns the current result. Concurrent callers share a fetch.
func (k *keySet) refetch(ctx context.Context, seen *fetchResult) (*fetchResult, error) {
	return egress.Share(ctx, &k.calls, "", func(ctx context.Context) (*fetchResult, error) {
		last := k.fetched.Load()
		if last != seen || time.Since(last.at) < minRefetchInterval {
			return last, nil
		}
		next := &fetchResult{at: time.Now(), keys: last.keys}
		found, err := k.fetch(ctx)
		if next.err = err; err == nil {
			next.keys = found
		}
		k.onFetch(err)
		k.fetched.Store(next)
		return next, nil
	})
}

// discovery contains the fields that are read from the discovery document of a provider (OpenID
// Connect Discovery, section 3).
type discovery struct {
	Issuer                string   `json:"issuer"`
	KeysURL               string   `json:"jwks_uri"`
	AuthorizationEndpoint string   `json:"authorization_endpoint"`
	TokenEndpoint         string   `json:"token_endpoint"`
	Scopes                []string `json:"scopes_supported"`
}

// discover reads the discovery document.
func (k *keySet) discover(ctx context.Context) (*discovery, error) {
	found := new(discovery)
	if err := k.get(ctx, k.discoveryURL, found); err != nil {
		return nil, err
	}
	if found.Issuer != k.issuer {
		return nil, fmt.Errorf("oidc: issuer did not match the issuer returned by provider, expected %q got %q", k.issuer, found.Issuer)
	}
	k.discovered.Store(found)
	return found, nil
}

func (k *keySet) fetch(ctx context.Context) ([]jose.JSONWebKey, error) {
	provider, err := k.discover(ctx)
	if err != nil {
		return nil, err
	}
	var set jose.JSONWebKeySet
	if err := k.get(ctx, provider.KeysURL, &set); err != nil {
		return nil, err
	}
	var public []jose.JSONWebKey
	for _, key := range set.Keys {
		if key.IsPublic() && key.Valid() && (key.Use == "" || key.Use == "sig") {
			public = append(public, key)
		}
	}
	if len(public) == 0 {
		return nil, fmt.Errorf("get %s: it has no public key", provider.KeysURL)
	}
	return public, nil
}

func (k *keySet) get(ctx context.Context, from string, to any) error {
	body, err := download(ctx, k.client, from, nil)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(body, to); err != nil {
		return fmt.Errorf("get %s: %w", from, err)
	}
	return nil
}

// download returns the body of a successful GET response, truncated to maxDocument bytes.
func download(ctx context.Context, client *http.Client, from string, header http.Header) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, from, nil)
	if err != nil {
		return nil, err
	}
	maps.Copy(r.Header, header)
	response, err := client.Do(r)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxDocument))
	if err != nil {
		return nil, fmt.Errorf("get %s: %w", from, err)
	}
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("get %s: %s", from, response.Status)
	}
	return body, nil
}
