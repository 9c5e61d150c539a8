// Package factory opens the storage of a kind of object. It is the one place
// where the layers between the registry and the bytes are stacked:
//
//	kv.Backend          bytes under keys, one counter of revisions
//	storage.Transformer encryption at rest
//	storage.Store       objects: keys, versions, preconditions, guaranteed updates
//	cache.Cacher        reads and watches from memory (not where Uncached)
//	storage.Observed    calls an Observer before a write returns
//
// Each layer but the lowest two is a storage.Interface around the one below.
package factory

import (
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/storage"
	"mainstay.dev/mainstay/internal/storage/cache"
	"mainstay.dev/mainstay/internal/storage/kv"
)

// Config describes the storage of a control plane.
type Config struct {
	// Backend keeps the bytes. Required.
	Backend kv.Backend
	// Prefix starts every key; "" means storage.DefaultPrefix.
	Prefix string
	// Feed watches Backend for caches. It may be shared by factories with
	// different prefixes. nil: nothing is cached.
	Feed *cache.Feed
	// Overrides are where single resources are kept instead.
	Overrides map[schema.GroupResource]Override
	// Transformer returns what changes the values of a resource on their way to
	// the backend; nil, or a nil Transformer, leaves them as they are.
	Transformer func(schema.GroupResource) storage.Transformer
	// Encodings bounds what is kept of encoded objects; nil keeps without bound.
	Encodings *codec.Memory
	// Metrics counts; it may be nil.
	Metrics *storage.Metrics
}

// Override is a backend that keeps single resources.
type Override struct {
	Backend kv.Backend
	Feed    *cache.Feed // as Config.Feed, of this backend
}

// Factory opens storage. It is safe for concurrent use.
type Factory struct{ config Config }

// New returns a factory.
func New(config Config) (*Factory, error) {
	if config.Backend == nil {
		return nil, errors.New("storage factory: a Backend is required")
	}
	if config.Prefix == "" {
		config.Prefix = storage.DefaultPrefix
	}
	config.Prefix = "/" + strings.Trim(config.Prefix, "/")
	if config.Feed != nil && !config.Feed.Covers(config.Prefix) {
		return nil, fmt.Errorf("storage factory: the Feed does not cover %s", config.Prefix)
	}
	for resource, o := range config.Overrides {
		if o.Backend == nil || o.Feed != nil && !o.Feed.Covers(config.Prefix) {
			return nil, fmt.Errorf("storage factory: the override of %s has no Backend, or a Feed that does not cover %s", resource, config.Prefix)
		}
	}
	return &Factory{config}, nil
}

// Open returns the storage of a spec. Storages of the same path have the same
// objects. It sets the Memory of the spec's Kind: a Kind must not be used by the
// factories of two hosts.
func (f *Factory) Open(spec storage.Spec) (storage.Interface, error) {
	if spec.Kind.Memory != f.config.Encodings { // opened again, its records may be in use: then nothing is written
		spec.Kind.Memory = f.config.Encodings
	}
	backend, feed := f.of(spec.Resource)
	store, err := storage.New(storage.Config{
		Backend: backend, Prefix: f.config.Prefix, ResourcePrefix: spec.Path, Kind: spec.Kind,
		Namespaced: spec.Namespaced, GroupResource: spec.Resource, Transformer: f.transformer(spec.Resource), Metrics: f.config.Metrics,
	})
	if err != nil {
		return nil, err
	}
	var opened storage.Interface = store
	if feed != nil && !spec.Uncached {
		if opened, err = cache.New(cache.Config{Store: store, Feed: feed, IndexFields: spec.IndexFields}); err != nil {
			return nil, err
		}
	}
	if spec.Observer != nil {
		opened = storage.Observed(opened, spec.Observer)
	}
	return opened, nil
}

// of returns where a resource is kept.
func (f *Factory) of(resource schema.GroupResource) (kv.Backend, *cache.Feed) {
	if o, ok := f.config.Overrides[resource]; ok {
		return o.Backend, o.Feed
	}
	return f.config.Backend, f.config.Feed
}

// Backend returns what keeps the objects of a resource.
func (f *Factory) Backend(resource schema.GroupResource) kv.Backend {
	backend, _ := f.of(resource)
	return backend
}

func (f *Factory) transformer(resource schema.GroupResource) storage.Transformer {
	if f.config.Transformer == nil {
		return nil
	}
	return f.config.Transformer(resource)
}
