package fleet

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/apis/controlplanes"
	"mainstay.dev/mainstay/internal/controlplane"
	"mainstay.dev/mainstay/internal/filters/authn"
	"mainstay.dev/mainstay/internal/filters/authn/serviceaccount"
	"mainstay.dev/mainstay/internal/host/pki"
	"mainstay.dev/mainstay/internal/request"
	"mainstay.dev/mainstay/internal/storage"
	"mainstay.dev/mainstay/internal/storage/kv"
)

// identityKey returns the storage key of the keys and certificates of a control plane.
func (f *Fleet) identityKey(uid types.UID) string { return f.folder(uid) + controlplanes.IdentityKey }

// objectPrefix returns the prefix of the objects of a control plane.
func (f *Fleet) objectPrefix(uid types.UID) string { return f.folder(uid) + controlplanes.ObjectPrefix }

// keySet contains the keys and certificates of a control plane.
type keySet struct {
	*pki.Set
	// issuer is the issuer of service account tokens. It is the first URL of the control plane, does not
	// change when the address of the server changes, and is equal on all servers that share an etcd cluster.
	issuer string
	// revision is the revision at which the keys were stored, and therefore the first revision of the
	// control plane.
	revision kv.Revision
	content
}

// storedKeys is the stored form of a keySet.
type storedKeys struct {
	Issuer string            `json:"issuer"`
	Files  map[string]string `json:"files"` // PEM by name
	content
}

// readKeys returns the stored keys and certificates of a control plane, or nil if they have not been
// created yet.
func (f *Fleet) readKeys(ctx context.Context, p planeKey) (*keySet, error) {
	key := f.identityKey(p.uid)
	entry, _, err := f.config.Env.Storage.Backend.Get(ctx, key, 0)
	switch {
	case err != nil:
		return nil, fmt.Errorf("read the keys of the control plane: %w", err)
	case entry == nil:
		return nil, nil
	}
	return f.decodeKeys(ctx, p.uid, entry)
}

// ensureKeys returns the keys and certificates of a control plane, and creates them if they do not exist. They
// are encrypted like Secrets. source is the source of a fork, or nil if the control plane is not a fork; see
// fork for the errors. ensureKeys must not be called for a control plane that is being deleted.
func (f *Fleet) ensureKeys(ctx context.Context, p planeKey, source *controlplanes.Source) (*keySet, error) {
	if existing, err := f.readKeys(ctx, p); existing != nil || err != nil {
		return existing, err
	}
	key := f.identityKey(p.uid)
	created, err := pki.OpenSet(string(p.uid), nil)
	if err != nil {
		return nil, err
	}
	stored := storedKeys{Issuer: f.url(p.name), Files: map[string]string{}}
	var guard []kv.Op
	if source != nil {
		stored.content, guard, err = f.fork(ctx, p, source)
	} else {
		stored.Created = f.now().UTC().Truncate(time.Second)
		stored.Template, err = f.templates.ensure(ctx, stored.Created)
	}
	if err != nil {
		return nil, err
	}
	for name, content := range created.Files() {
		stored.Files[name] = string(content)
	}
	value, err := json.Marshal(stored)
	if err != nil {
		return nil, fmt.Errorf("encode the keys of the control plane: %w", err)
	}
	if value, err = f.transformer().ToStorage(ctx, value, key); err != nil {
		return nil, fmt.Errorf("encrypt the keys of the control plane: %w", err)
	}
	result, err := f.config.Env.Storage.Backend.Commit(ctx, append([]kv.Op{{Key: key, Kind: kv.OpPut, Value: value}}, guard...)...)
	switch {
	case err != nil:
		return nil, fmt.Errorf("store the keys of the control plane: %w", err)
	case !result.Committed && result.Current[0] != nil: // another server has created the keys
		return f.decodeKeys(ctx, p.uid, result.Current[0])
	case !result.Committed:
		return nil, errCopyInterrupted
	}
	return &keySet{created, stored.Issuer, result.Revision, stored.content}, nil
}

func (f *Fleet) decodeKeys(ctx context.Context, uid types.UID, entry *kv.Entry) (*keySet, error) {
	plain, _, err := f.transformer().FromStorage(ctx, entry.Value, entry.Key)
	if err != nil {
		return nil, fmt.Errorf("decrypt the keys of the control plane: %w", err)
	}
	var stored storedKeys
	if err := json.Unmarshal(plain, &stored); err != nil {
		return nil, fmt.Errorf("decode the keys of the control plane: %w", err)
	}
	files := map[string][]byte{}
	for name, text := range stored.Files {
		files[name] = []byte(text)
	}
	set, err := pki.OpenSet(string(uid), files)
	return &keySet{set, stored.Issuer, entry.Created, stored.content}, err
}

// transformer returns the encryption of Secrets.
func (f *Fleet) transformer() storage.Transformer {
	return f.transformerOf(schema.GroupResource{Resource: "secrets"})
}

// transformerOf returns the encryption of a resource.
func (f *Fleet) transformerOf(resource schema.GroupResource) storage.Transformer {
	if of := f.config.Env.Storage.Transformer; of != nil {
		if t := of(resource); t != nil {
			return t
		}
	}
	return storage.Identity{}
}

// identity returns the identity of a control plane with the given keys.
func (f *Fleet) identity(p *plane, keys *keySet) (controlplane.Identity, error) {
	tokenKeys, err := serviceaccount.NewKeys(keys.Tokens)
	if err != nil {
		return controlplane.Identity{}, err
	}
	proxies := authn.DefaultRequestHeaders()
	proxies.Authorities = keys.FrontProxies.Pool()
	uid := p.key.uid
	return controlplane.Identity{
		Authenticator: authn.Union{ownProxies{proxies}, &authn.Certificates{
			Authorities: keys.Clients.Pool(), Expiration: f.config.Env.Telemetry.Metrics.Security.Authentication.Expiration(),
		}},
		ClusterAuthentication: func() (map[string]string, error) {
			return proxies.ClusterAuthentication(keys.Clients.Bundle(), keys.FrontProxies.Bundle())
		},
		ServingCA:        f.config.Env.Identity.ServingCA,
		ProxyCertificate: func() (*tls.Certificate, error) { return proxyCertificate(keys) },
		Signing:          func(string) *tls.Certificate { return keys.Clients.KeyPair() },
		TokenAuthenticators: []authn.TokenSource{authn.UserTokens(func(_ context.Context, token string) (*request.User, error) {
			return f.administrator(uid, token), nil
		})},
		Visitors:  visitors{f},
		TokenKeys: tokenKeys,
	}, nil
}

// ownProxies authenticates the front proxies of a control plane. It does not remove the headers that contain
// the user from the request, because visitors needs them to authenticate the front proxies of the root control
// plane. The authentication filter removes the headers later.
type ownProxies struct{ *authn.RequestHeaders }

// Authenticate implements authn.Authenticator.
func (p ownProxies) Authenticate(r *http.Request) (*request.Authentication, error) {
	if r.TLS == nil || len(r.TLS.PeerCertificates) == 0 {
		return nil, nil
	}
	return p.RequestHeaders.Authenticate(withOwnHeader(r))
}

// withOwnHeader returns a shallow copy of a request whose header is also copied, so that authenticators can
// modify the header.
func withOwnHeader(r *http.Request) *http.Request {
	attempt := *r
	attempt.Header = r.Header.Clone()
	return &attempt
}

// proxyCertificate issues a client certificate for aggregated servers. It is called for each connection to
// an aggregated server, and takes less than a millisecond.
func proxyCertificate(keys *keySet) (*tls.Certificate, error) {
	cert, key, err := keys.FrontProxies.Issue(proxyLifetime, authn.FrontProxyClient)
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, fmt.Errorf("read the certificate of %s: %w", authn.FrontProxyClient, err)
	}
	return &pair, nil
}
