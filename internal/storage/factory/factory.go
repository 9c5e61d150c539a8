// Package factory opens the storage of a kind of object. Only this package combines the layers between
// the registry and the backend:
//
//	kv.Backend           bytes under keys, one counter of revisions
//	storage.Transformer  encryption at rest
//	storage.Store        objects: keys, versions, preconditions, guaranteed updates
//	cache.Cacher         reads and watches from memory, unless Spec.Uncached is set
//	storage.WithObserver calls an Observer before a write returns
//
// The last three layers implement storage.Interface; the last two decorate the layer before them.
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
	// Backend stores the values. Required.
	Backend kv.Backend
	// Prefix is the prefix of all keys; "" means storage.DefaultPrefix.
	Prefix string
	// Feed watches Backend for caches. Factories with different prefixes may share it. nil disables
	// caches.
	Feed *cache.Feed
	// Overrides contains separate backends for individual resources.
	Overrides map[schema.GroupResource]Override
	// Transformer returns the transformer of a resource's values; nil, or a nil Transformer, stores
	// them unchanged.
	Transformer func(schema.GroupResource) storage.Transformer
	// Encodings limits the cache of encoded objects; nil means no limit.
	Encodings *codec.EncodingCache
	// Metrics are the metrics of all opened Stores; nil disables them.
	Metrics *storage.Metrics
	// RecordOrigins stores the origin of each write for the history.
	RecordOrigins bool
}

// Override is a separate backend for individual resources.
type Override struct {
	// Backend stores the values of the resource. Required.
	Backend kv.Backend
	// Feed watches Backend for caches; nil disables caches of the resource.
	Feed *cache.Feed
}

// Factory opens storage. It is safe for concurrent use.
type Factory struct{ config Config }

// New returns a factory. It returns an error if a Backend is missing or a Feed does not watch all keys
// with the prefix. It does no I/O.
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

// Open returns the storage of a spec. It does no I/O. Storages of the same path share their objects.
// Open sets Kind.EncodingCache, so a Kind must not be used with factories that have different Encodings. The
// error describes an invalid spec.
func (f *Factory) Open(spec storage.Spec) (storage.Interface, error) {
	if spec.Kind.EncodingCache != f.config.Encodings { // the Kind of a reopened resource may be in use, so it must not be written again
		spec.Kind.EncodingCache = f.config.Encodings
	}
	backend, feed := f.backendAndFeed(spec.Resource)
	store, err := storage.New(storage.Config{
		Backend: backend, Prefix: f.config.Prefix, ResourcePrefix: spec.Path, Kind: spec.Kind,
		Namespaced: spec.Namespaced, GroupResource: spec.Resource, Transformer: f.transformer(spec.Resource), Metrics: f.config.Metrics,
		RecordOrigins: f.config.RecordOrigins,
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
		opened = storage.WithObserver(opened, spec.Observer)
	}
	return opened, nil
}

// backendAndFeed returns the backend and the feed of a resource.
func (f *Factory) backendAndFeed(resource schema.GroupResource) (kv.Backend, *cache.Feed) {
	if o, ok := f.config.Overrides[resource]; ok {
		return o.Backend, o.Feed
	}
	return f.config.Backend, f.config.Feed
}

// Backend returns the backend of a resource: its override, or Config.Backend.
func (f *Factory) Backend(resource schema.GroupResource) kv.Backend {
	backend, _ := f.backendAndFeed(resource)
	return backend
}

func (f *Factory) transformer(resource schema.GroupResource) storage.Transformer {
	if f.config.Transformer == nil {
		return nil
	}
	return f.config.Transformer(resource)
}
