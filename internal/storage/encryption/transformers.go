// Package encryption implements encryption at rest with an EncryptionConfiguration: it provides a
// storage.Transformer for each resource. The format of values is kube-apiserver's, so that Mainstay and
// kube-apiserver can read each other's values. The subpackages implement the ciphers. This package selects
// the provider and key, and reloads the file:
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
	// File is the path of the configuration. Required.
	File string
	// Reload makes Run load the file again after it has changed.
	Reload  bool
	Metrics *Metrics     // may be nil
	Logger  *slog.Logger // may be nil
}

// Transformers contains the transformers of all resources for the current configuration. It is safe
// for concurrent use.
type Transformers struct {
	options Options
	current atomic.Pointer[loadedConfig]
}

// loadedConfig is a configuration and its ciphers.
type loadedConfig struct {
	hash        string
	rules       map[schema.GroupResource]*cipherList
	plugins     []*kms.Provider
	callTimeout time.Duration
}

// Open loads the configuration and checks its plugins once, which blocks for at most their timeouts.
// An unavailable plugin is logged and is not an error: Run, which the caller must start, checks it
// again. The error reports an unreadable or invalid file.
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

// maxConfigBytes is the maximum size of the configuration file, in bytes.
const maxConfigBytes = 16 << 20

// read returns the contents of the file and their hash. Changes are detected by the hash, so that the
// keys are not retained in memory.
func (t *Transformers) read() ([]byte, string, error) {
	info, err := os.Stat(t.options.File)
	if err == nil && info.Size() > maxConfigBytes {
		err = fmt.Errorf("the file has %d bytes, more than the maximum of %d", info.Size(), maxConfigBytes)
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

func (t *Transformers) load(data []byte, hash string) (*loadedConfig, error) {
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
	return &loadedConfig{hash: hash, rules: rules, plugins: b.plugins, callTimeout: b.callTimeout}, nil
}

// rules returns the ciphers by resource or wildcard. A resource in several rules has the providers of
// all these rules.
func (b *builder) rules(config *Configuration) (map[schema.GroupResource]*cipherList, error) {
	rules := map[schema.GroupResource]*cipherList{}
	for _, rule := range config.Resources {
		providers, err := b.cipherList(rule.Providers)
		if err != nil {
			return nil, err
		}
		for _, name := range rule.Resources {
			resource := schema.ParseGroupResource(name)
			for _, wildcard := range []schema.GroupResource{{Group: resource.Group, Resource: "*"}, allResources} {
				if rules[wildcard] != nil {
					return nil, fmt.Errorf("resource %q is masked by earlier rule %q", configName(resource), configName(wildcard))
				}
			}
			u := &cipherList{noMatch: providers.noMatch, metrics: providers.metrics}
			if before := rules[resource]; before != nil {
				u.parts = before.parts
			}
			u.parts = slices.Concat(u.parts, providers.parts)
			rules[resource] = u
		}
	}
	return rules, nil
}

// configName returns the notation of a resource in the configuration file.
func configName(resource schema.GroupResource) string {
	if resource.Group == "" && resource.Resource == "*" {
		return "*."
	}
	return resource.String()
}

// check checks all plugins concurrently.
func (l *loadedConfig) check(ctx context.Context) error {
	errs := make([]error, len(l.plugins))
	var checks sync.WaitGroup
	for i, plugin := range l.plugins {
		checks.Go(func() {
			if err := plugin.Check(ctx); err != nil {
				errs[i] = fmt.Errorf("kms-provider-%d: %w", i, err)
			}
		})
	}
	checks.Wait()
	return utilerrors.NewAggregate(errs)
}

// rule returns the ciphers of a resource, or nil if the resource is not encrypted.
func (l *loadedConfig) rule(resource schema.GroupResource) *cipherList {
	for _, name := range []schema.GroupResource{resource, {Group: resource.Group, Resource: "*"}, allResources} {
		if u := l.rules[name]; u != nil {
			return u
		}
	}
	return nil
}

// CheckName is the name of the health check of all plugins.
const CheckName = "kms-providers"

// HasCheck reports whether the server must register the health check CheckName, because the configuration has
// plugins or can have plugins after a reload.
func (t *Transformers) HasCheck() bool {
	return t.options.Reload || len(t.current.Load().plugins) > 0
}

// Check checks all plugins concurrently and returns their errors. It blocks for at most the timeouts
// of the plugins; recent results are reused.
func (t *Transformers) Check(ctx context.Context) error { return t.current.Load().check(ctx) }

// neverEncrypted reports whether the stored objects of a resource are internal and have no API. As in
// kube-apiserver, wildcards do not apply to these resources. nodeports is specific to Mainstay.
func neverEncrypted(resource schema.GroupResource) bool {
	return resource.Group == "" && slices.Contains([]string{"apiserveripinfo", "rangeallocations", "nodeports"}, resource.Resource)
}

// For returns the transformer of a resource. With Options.Reload, the transformer follows changes of the
// configuration and implements storage.Changeable. Otherwise, For returns storage.Identity for a resource
// without a rule.
func (t *Transformers) For(resource schema.GroupResource) storage.Transformer {
	if neverEncrypted(resource) || !t.options.Reload && t.current.Load().rule(resource) == nil {
		return storage.Identity{} // lets the watch cache decode events without a goroutine
	}
	return &transformer{t, resource, resource.String()}
}

// transformer is the storage.Transformer of one resource.
type transformer struct {
	transformers *Transformers
	resource     schema.GroupResource
	name         string
}

// IsIdentity implements storage.Changeable.
func (t *transformer) IsIdentity() bool { return t.transformers.current.Load().rule(t.resource) == nil }

// FromStorage implements storage.Transformer.
func (t *transformer) FromStorage(ctx context.Context, data []byte, key string) ([]byte, bool, error) {
	u := t.transformers.current.Load().rule(t.resource)
	if u == nil {
		return storage.Identity{}.FromStorage(ctx, data, key)
	}
	return u.open(ctx, data, &value{t.name, []byte(key)})
}

// ToStorage implements storage.Transformer.
func (t *transformer) ToStorage(_ context.Context, plain []byte, key string) ([]byte, error) {
	u := t.transformers.current.Load().rule(t.resource)
	if u == nil {
		return plain, nil
	}
	return u.seal(make([]byte, 0, len(plain)+u.Overhead()), plain, &value{t.name, []byte(key)})
}
