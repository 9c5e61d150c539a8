// Package encryption implements encryption at rest with an EncryptionConfiguration: it provides a
// storage.Transformer for each resource. The format of values is kube-apiserver's, so that each
// server can read the other's values. The packages below implement the ciphers. This package
// selects the provider and key, and reloads the file:
//
//   - config, validate: the file.
//   - providers: prefixes, and the keys for reading and writing.
//   - transformers: the current configuration, by resource.
//   - reload: changes of the file.
package encryption

import (
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"

	"mainstay.dev/mainstay/internal/storage"
	"mainstay.dev/mainstay/internal/storage/encryption/kms"
)

// Options configure Transformers.
type Options struct {
	// File has the configuration. Required.
	File string
	// Reload follows the file when it changes.
	Reload  bool
	Metrics *Metrics     // may be nil
	Logger  *slog.Logger // may be nil
}

// Transformers are the transformers of all resources, by the configuration in force. They
// are safe for concurrent use.
type Transformers struct {
	options Options
	current atomic.Pointer[loaded]
}

// loaded is a configuration and its ciphers.
type loaded struct {
	hash     string
	rules    map[schema.GroupResource]*union
	plugins  []*kms.Provider
	patience time.Duration
}

// Open loads the configuration and checks its plugins once. An unavailable plugin is not an error:
// Run, which the caller must start, checks it again.
func Open(ctx context.Context, options Options) (*Transformers, error) {
	if options.Logger == nil {
		options.Logger = slog.New(slog.DiscardHandler)
	}
	t := &Transformers{options: options}
	data, hash, err := t.read()
	if err != nil {
		return nil, err
	}
	first, err := t.load(data, hash)
	if err != nil {
		return nil, err
	}
	if err := first.check(ctx); err != nil {
		options.Logger.Warn("a KMS plugin does not respond; until it does, its values can be neither read nor written", "err", err)
	}
	t.current.Store(first)
	options.Metrics.loaded(hash)
	return t, nil
}

// maxConfigBytes bounds the file.
const maxConfigBytes = 16 << 20

// read returns the file and its hash, by which changes are found without keeping keys.
func (t *Transformers) read() ([]byte, string, error) {
	info, err := os.Stat(t.options.File)
	if err == nil && info.Size() > maxConfigBytes {
		err = fmt.Errorf("it has %d bytes; at most %d are possible", info.Size(), maxConfigBytes)
	}
	var data []byte
	if err == nil {
		data, err = os.ReadFile(t.options.File)
	}
	if err != nil {
		return nil, "", fmt.Errorf("error while parsing file: error while loading file: error reading encryption provider configuration file %q: %w", t.options.File, err)
	}
	if len(data) == 0 {
		return nil, "", fmt.Errorf("error while parsing file: error while loading file: encryption provider configuration file %q is empty", t.options.File)
	}
	return data, fmt.Sprintf("sha256:%x", sha256.Sum256(data)), nil
}

func (t *Transformers) load(data []byte, hash string) (*loaded, error) {
	config, err := Parse(data, t.options.Reload)
	if err != nil {
		return nil, fmt.Errorf("error while parsing file %q: %w", t.options.File, err)
	}
	b := &builder{options: &t.options}
	rules, err := b.rules(config)
	if err != nil {
		for _, plugin := range b.plugins {
			plugin.Close()
		}
		return nil, fmt.Errorf("error while building transformers: %w", err)
	}
	return &loaded{hash: hash, rules: rules, plugins: b.plugins, patience: b.patience}, nil
}

// rules returns the ciphers by resource, of which wildcards are some. A resource in
// several rules has the providers of all.
func (b *builder) rules(config *Configuration) (map[schema.GroupResource]*union, error) {
	rules := map[schema.GroupResource]*union{}
	for _, rule := range config.Resources {
		providers, err := b.union(rule.Providers)
		if err != nil {
			return nil, err
		}
		for _, name := range rule.Resources {
			resource := schema.ParseGroupResource(name)
			for _, wildcard := range []schema.GroupResource{{Group: resource.Group, Resource: "*"}, everything} {
				if rules[wildcard] != nil {
					return nil, fmt.Errorf("resource %q is masked by earlier rule %q", written(resource), written(wildcard))
				}
			}
			u := &union{none: providers.none, metrics: providers.metrics}
			if before := rules[resource]; before != nil {
				u.parts = before.parts
			}
			u.parts = slices.Concat(u.parts, providers.parts)
			rules[resource] = u
		}
	}
	return rules, nil
}

// written is how the file has a resource.
func written(resource schema.GroupResource) string {
	if resource.Group == "" && resource.Resource == "*" {
		return "*."
	}
	return resource.String()
}

// check checks all plugins concurrently.
func (l *loaded) check(ctx context.Context) error {
	errs := make([]error, len(l.plugins))
	var asked sync.WaitGroup
	for i, plugin := range l.plugins {
		asked.Go(func() {
			if err := plugin.Check(ctx); err != nil {
				errs[i] = fmt.Errorf("kms-provider-%d: %w", i, err)
			}
		})
	}
	asked.Wait()
	return utilerrors.NewAggregate(errs)
}

// rule returns the ciphers of a resource; nil: it is not encrypted.
func (l *loaded) rule(resource schema.GroupResource) *union {
	for _, name := range []schema.GroupResource{resource, {Group: resource.Group, Resource: "*"}, everything} {
		if u := l.rules[name]; u != nil {
			return u
		}
	}
	return nil
}

// CheckName is the name of the health check of all plugins.
const CheckName = "kms-providers"

// HasCheck reports whether there is that check: where there are plugins, or may be.
func (t *Transformers) HasCheck() bool {
	return t.options.Reload || len(t.current.Load().plugins) > 0
}

// Check returns the errors of the plugins.
func (t *Transformers) Check(ctx context.Context) error { return t.current.Load().check(ctx) }

// unserved reports whether stored objects are not API resources. Like kube-apiserver, they are
// never encrypted, not even by a wildcard. nodeports is Mainstay's own.
func unserved(resource schema.GroupResource) bool {
	return resource.Group == "" && slices.Contains([]string{"apiserveripinfo", "rangeallocations", "nodeports"}, resource.Resource)
}

// For returns the transformer of a resource.
func (t *Transformers) For(resource schema.GroupResource) storage.Transformer {
	if unserved(resource) || !t.options.Reload && t.current.Load().rule(resource) == nil {
		return storage.Identity{} // its reads need no goroutine
	}
	return &transformer{t, resource, resource.String()}
}

// transformer is that of one resource.
type transformer struct {
	of       *Transformers
	resource schema.GroupResource
	name     string
}

// IsIdentity implements storage.Changeable.
func (t *transformer) IsIdentity() bool { return t.of.current.Load().rule(t.resource) == nil }

// FromStorage implements storage.Transformer.
func (t *transformer) FromStorage(ctx context.Context, data []byte, key string) ([]byte, bool, error) {
	u := t.of.current.Load().rule(t.resource)
	if u == nil {
		return storage.Identity{}.FromStorage(ctx, data, key)
	}
	return u.open(ctx, data, &value{t.name, []byte(key)})
}

// ToStorage implements storage.Transformer.
func (t *transformer) ToStorage(_ context.Context, plain []byte, key string) ([]byte, error) {
	u := t.of.current.Load().rule(t.resource)
	if u == nil {
		return plain, nil
	}
	return u.seal(make([]byte, 0, len(plain)+u.Overhead()), plain, &value{t.name, []byte(key)})
}
