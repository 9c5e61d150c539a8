package encryption

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"time"

	utilerrors "k8s.io/apimachinery/pkg/util/errors"

	"mainstay.dev/mainstay/internal/storage"
	"mainstay.dev/mainstay/internal/storage/encryption/aes"
	"mainstay.dev/mainstay/internal/storage/encryption/kms"
	"mainstay.dev/mainstay/internal/storage/encryption/secretbox"
)

// Prefixes of stored values, which identify the provider. The KMS prefix is followed by the name of
// the plugin and a colon; the other prefixes are followed by the name of the key and a colon.
const (
	prefixCBC       = "k8s:enc:aescbc:v1:"
	prefixGCM       = "k8s:enc:aesgcm:v1:"
	prefixSecretbox = "k8s:enc:secretbox:v1:"
	prefixKMS       = "k8s:enc:kms:v2:"
)

// value identifies a value that is read or written.
type value struct {
	resource string // for metrics
	key      []byte
}

// cipher encrypts values.
type cipher interface {
	// Overhead returns the maximum number of bytes by which seal lengthens a value.
	Overhead() int
	// seal appends the encrypted value to dst.
	seal(dst, plain []byte, v *value) ([]byte, error)
	// open decrypts a value. It does not modify data; plain may share its memory.
	open(ctx context.Context, data []byte, v *value) (plain []byte, stale bool, err error)
}

// local is a cipher with its key in memory.
type local struct{ keyed }

type keyed interface {
	Overhead() int
	Seal(dst, plain, key []byte) ([]byte, error)
	Open(data, key []byte) ([]byte, error)
}

func (c local) seal(dst, plain []byte, v *value) ([]byte, error) { return c.Seal(dst, plain, v.key) }

func (c local) open(_ context.Context, data []byte, v *value) ([]byte, bool, error) {
	plain, err := c.Open(data, v.key)
	return plain, false, err
}

// remote is a cipher with its key in a plugin.
type remote struct{ *kms.Provider }

func (c remote) seal(dst, plain []byte, v *value) ([]byte, error) { return c.Seal(dst, plain, v.key) }

func (c remote) open(ctx context.Context, data []byte, v *value) ([]byte, bool, error) {
	return c.Open(ctx, data, v.key)
}

// identity is the cipher without encryption. It rejects encrypted values.
type identity struct{}

func (identity) Overhead() int                                    { return 0 }
func (identity) seal(dst, plain []byte, _ *value) ([]byte, error) { return append(dst, plain...), nil }
func (identity) open(ctx context.Context, data []byte, _ *value) ([]byte, bool, error) {
	return storage.Identity{}.FromStorage(ctx, data, "")
}

// prefixed is a cipher with the prefix of its values, which is empty for identity.
type prefixed struct {
	prefix string
	cipher
}

// cipherList combines ciphers: the first cipher encrypts, and each cipher decrypts the values with its
// prefix. A cipherList contains the keys of a provider or the providers of a rule.
type cipherList struct {
	parts []prefixed
	// noMatch is the error if no prefix matches.
	noMatch error
	metrics *Metrics
}

// Overhead implements cipher.
func (u *cipherList) Overhead() int { return len(u.parts[0].prefix) + u.parts[0].Overhead() }

func (u *cipherList) seal(dst, plain []byte, v *value) ([]byte, error) {
	start := time.Now()
	first := &u.parts[0]
	dst, err := first.seal(append(dst, first.prefix...), plain, v)
	u.metrics.transformed(v.resource, kms.ToStorage, first.prefix, time.Since(start), err)
	return dst, err
}

// open tries every cipher with a matching prefix, because several ciphers may have the same prefix but
// different keys. Values that identity rejects are passed to the ciphers after it.
func (u *cipherList) open(ctx context.Context, data []byte, v *value) ([]byte, bool, error) {
	start := time.Now()
	var errs []error
	for i := range u.parts {
		part := &u.parts[i]
		if !bytes.HasPrefix(data, []byte(part.prefix)) {
			continue
		}
		plain, stale, err := part.open(ctx, data[len(part.prefix):], v)
		name := part.prefix
		if name == "" {
			if err != nil {
				continue
			}
			name = "identity"
		}
		u.metrics.transformed(v.resource, kms.FromStorage, name, time.Since(start), err)
		if err == nil {
			return plain, stale || i > 0, nil
		}
		errs = append(errs, err)
	}
	if len(errs) > 0 {
		return nil, false, utilerrors.Reduce(utilerrors.NewAggregate(errs))
	}
	u.metrics.transformed(v.resource, kms.FromStorage, "unknown", time.Since(start), u.noMatch)
	return nil, false, u.noMatch
}

var errNoPrefix = errors.New("no matching prefix found")

// builder creates the ciphers of a configuration.
type builder struct {
	options *Options
	plugins []*kms.Provider
	// callTimeout is the sum of the call timeouts of all plugins.
	callTimeout time.Duration
}

func (b *builder) cipherList(providers []Provider) (*cipherList, error) {
	u := &cipherList{noMatch: errNoPrefix, metrics: b.options.Metrics}
	for i := range providers {
		part, err := b.provider(&providers[i])
		if err != nil {
			return nil, err
		}
		u.parts = append(u.parts, part)
	}
	return u, nil
}

func (b *builder) provider(p *Provider) (prefixed, error) {
	switch {
	case p.AESGCM != nil:
		return newKeyList(b, prefixGCM, "AES", p.AESGCM, aes.NewGCM)
	case p.AESCBC != nil:
		return newKeyList(b, prefixCBC, "AES", p.AESCBC, aes.NewCBC)
	case p.Secretbox != nil:
		return newKeyList(b, prefixSecretbox, "Secretbox", p.Secretbox, secretbox.New)
	case p.KMS != nil:
		return b.kms(p.KMS)
	}
	return prefixed{cipher: identity{}}, nil
}

// newKeyList returns a provider with the keys in config. with returns the cipher of a key.
func newKeyList[C keyed](b *builder, prefix, name string, config *KeysConfig, with func([]byte) (C, error)) (prefixed, error) {
	u := &cipherList{noMatch: fmt.Errorf("no matching key was found for the provided %s transformer", name), metrics: b.options.Metrics}
	for _, key := range config.Keys {
		secret, err := base64.StdEncoding.DecodeString(key.Secret)
		if err != nil {
			return prefixed{}, fmt.Errorf("could not obtain secret for named key %s: %w", key.Name, err)
		}
		c, err := with(secret)
		if err != nil {
			return prefixed{}, fmt.Errorf("error while creating cipher for named key %s: %w", key.Name, err)
		}
		u.parts = append(u.parts, prefixed{key.Name + ":", local{c}})
	}
	return prefixed{prefix, u}, nil
}

func (b *builder) kms(config *KMSConfig) (prefixed, error) {
	if config.APIVersion == "v1" {
		return prefixed{}, errKMSv1(config.Name)
	}
	plugin, err := kms.New(kms.Config{
		Name: config.Name, Endpoint: config.Endpoint, Timeout: config.Timeout.Duration, Metrics: b.options.Metrics.plugins(), Logger: b.options.Logger,
	})
	if err != nil {
		return prefixed{}, err
	}
	b.plugins = append(b.plugins, plugin)
	b.callTimeout += config.Timeout.Duration
	return prefixed{prefixKMS + config.Name + ":", remote{plugin}}, nil
}
