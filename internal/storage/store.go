package storage

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/validation/path"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/request"
	"mainstay.dev/mainstay/internal/storage/kv"
	"mainstay.dev/mainstay/internal/telemetry/tracing"
)

// DefaultPrefix is the default key prefix, which is also the default of kube-apiserver's --etcd-prefix.
const DefaultPrefix = "/registry"

// Config describes the Store of one resource.
type Config struct {
	// Backend is the key-value store. Required.
	Backend kv.Backend
	// Prefix is the prefix of all keys of the server; empty means DefaultPrefix.
	Prefix string
	// ResourcePrefix follows Prefix in all keys of the resource, for example "pods" or
	// "apiextensions.k8s.io/customresourcedefinitions". It has no leading or trailing slash. Required. Keys
	// are the same as kube-apiserver's if both prefixes are the same.
	ResourcePrefix string
	// Kind encodes and decodes the objects. Required.
	Kind *codec.Kind
	// Namespaced adds the namespace to keys, before the name.
	Namespaced bool
	// Transformer transforms stored values; nil stores them unchanged.
	Transformer Transformer
	// GroupResource is the name of the resource in metrics and errors.
	GroupResource schema.GroupResource
	// MaxObjectBytes is the maximum size of a stored value, in bytes; 0 selects the backend's
	// limit.
	MaxObjectBytes int
	// Metrics are shared by all Stores of a server; nil disables them.
	Metrics *Metrics
	// RecordOrigins stores the origin of each write (see package origin) for the history.
	RecordOrigins bool
}

// Store implements Interface over a backend, without a cache. It is safe for concurrent use.
type Store struct {
	backend     kv.Backend
	kind        *codec.Kind
	resource    schema.GroupResource
	namespaced  bool
	transformer Transformer
	maxBytes    int
	metrics     *Metrics
	origins     bool // Config.RecordOrigins
	// root is the prefix of all keys of the server, without a trailing slash. prefix is the prefix of
	// all keys of the resource, with a trailing slash.
	root, prefix string
}

var _ Interface = (*Store)(nil)

// New returns the Store of a resource. An error describes all invalid fields of cfg.
func New(cfg Config) (*Store, error) {
	if cfg.Prefix == "" {
		cfg.Prefix = DefaultPrefix
	}
	if cfg.Transformer == nil {
		cfg.Transformer = Identity{}
	}
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("storage of %s: %w", cfg.GroupResource, err)
	}
	root := "/" + strings.Trim(cfg.Prefix, "/")
	if root == cfg.Prefix {
		root = cfg.Prefix // all stores of a control plane share the string
	}
	return &Store{
		backend: cfg.Backend, kind: cfg.Kind, resource: cfg.GroupResource, namespaced: cfg.Namespaced,
		transformer: cfg.Transformer, maxBytes: cfg.MaxObjectBytes, metrics: cfg.Metrics, origins: cfg.RecordOrigins,
		root: root, prefix: root + "/" + cfg.ResourcePrefix + "/",
	}, nil
}

func (cfg *Config) validate() error {
	var errs []error
	if cfg.Backend == nil {
		errs = append(errs, errors.New("a Backend is required"))
	}
	if cfg.Kind == nil || cfg.Kind.Hub == nil {
		errs = append(errs, errors.New("a Kind with a Hub is required"))
	}
	if p := cfg.ResourcePrefix; p == "" || strings.Trim(p, "/") != p {
		errs = append(errs, fmt.Errorf("ResourcePrefix %q must not be empty, nor start or end with a slash", p))
	}
	if cfg.MaxObjectBytes < 0 {
		errs = append(errs, fmt.Errorf("MaxObjectBytes %d must not be negative", cfg.MaxObjectBytes))
	}
	return errors.Join(errs...)
}

// Backend returns the backend of the Config.
func (s *Store) Backend() kv.Backend { return s.backend }

// GroupResource returns the GroupResource of the Config.
func (s *Store) GroupResource() schema.GroupResource { return s.resource }

// Prefix returns the key prefix of all objects, with a trailing slash.
func (s *Store) Prefix() string { return s.prefix }

// Key returns the key of an object. The error is an *InvalidOptionError if the name cannot be part of a
// key.
func (s *Store) Key(name types.NamespacedName) (string, error) {
	parts := []string{name.Name}
	if s.namespaced {
		parts = []string{name.Namespace, name.Name}
	}
	for _, part := range parts {
		if part == "" {
			return "", &InvalidOptionError{"Name parameter required."}
		}
		if faults := path.IsValidPathSegmentName(part); len(faults) > 0 {
			return "", &InvalidOptionError{fmt.Sprintf("Name parameter invalid: %q: %s", part, strings.Join(faults, ";"))}
		}
	}
	return s.KeyOf(name), nil
}

// KeyOf returns the key of an object whose name is known to be valid, such as the name of a record.
func (s *Store) KeyOf(name types.NamespacedName) string {
	if s.namespaced && name.Namespace != "" {
		return s.prefix + name.Namespace + "/" + name.Name
	}
	return s.prefix + name.Name
}

// nameOf is the inverse of KeyOf. It returns a name for every key in the range of the store, including keys
// that KeyOf does not return.
func (s *Store) nameOf(key string) types.NamespacedName {
	rest := strings.TrimPrefix(key, s.prefix)
	if s.namespaced {
		if namespace, name, ok := strings.Cut(rest, "/"); ok {
			return types.NamespacedName{Namespace: namespace, Name: name}
		}
	}
	return types.NamespacedName{Name: rest}
}

// scope returns the prefix of the keys of a namespace, or of all objects if namespace is empty or the
// resource is not namespaced.
func (s *Store) scope(namespace string) (string, error) {
	if !s.namespaced || namespace == "" {
		return s.prefix, nil
	}
	if faults := path.IsValidPathSegmentName(namespace); len(faults) > 0 {
		return "", &InvalidOptionError{fmt.Sprintf("invalid namespace %q: %s", namespace, strings.Join(faults, ";"))}
	}
	return s.prefix + namespace + "/", nil
}

// Record returns the record of an entry of the backend. It may block on a key service. The error is a
// *CorruptError if the value cannot be decrypted. The value is decoded later, on first use.
func (s *Store) Record(ctx context.Context, e *kv.Entry) (*codec.Record, error) {
	record, _, err := s.decode(ctx, e)
	return record, err
}

// decode returns the record of an entry. stale reports that the stored value should be rewritten, because it
// was not encrypted with the current key.
func (s *Store) decode(ctx context.Context, e *kv.Entry) (record *codec.Record, stale bool, err error) {
	plain, stale, err := s.transformer.FromStorage(ctx, e.Value, e.Key)
	if err != nil && ctx.Err() != nil {
		return nil, false, fmt.Errorf("read %s: %w", e.Key, err)
	}
	if err != nil {
		return nil, false, &CorruptError{Key: e.Key, Err: err, Revision: int64(e.Modified)}
	}
	return codec.NewRecord(s.kind, s.nameOf(e.Key), plain, int64(e.Modified)), stale, nil
}

// Get implements Interface.
func (s *Store) Get(ctx context.Context, name types.NamespacedName, options ReadOptions) (record *codec.Record, err error) {
	ctx, span := tracing.Start(ctx, "Get from storage")
	defer func() { span.End(err) }()
	key, err := s.Key(name)
	if err != nil {
		return nil, err
	}
	min, err := ParseResourceVersion(options.ResourceVersion)
	if err != nil {
		return nil, err
	}
	var at kv.Revision // 0 reads the newest revision
	if options.Exact {
		if at = min; at == 0 {
			return nil, &InvalidOptionError{"resourceVersion is required to read an object as it was"}
		}
	}
	entry, current, err := s.get(ctx, key, at)
	if err != nil {
		return nil, s.readError(ctx, key, at, err)
	}
	if min > current {
		return nil, &FutureRevisionError{Requested: int64(min), Current: int64(current)}
	}
	if entry == nil {
		return nil, notFound(name)
	}
	record, err = s.Record(ctx, entry)
	if err != nil {
		return nil, s.trimKey(err)
	}
	return record, codec.Convert(ctx, record)
}

// get reads a key from the backend, as kv.Backend.Get, and measures the time.
func (s *Store) get(ctx context.Context, key string, at kv.Revision) (*kv.Entry, kv.Revision, error) {
	defer request.MeasureLatency(ctx, request.StageStorage)()
	return s.backend.Get(ctx, key, at)
}

// readError returns the error for a failed read of a key at a revision.
func (s *Store) readError(ctx context.Context, key string, at kv.Revision, err error) error {
	switch {
	case errors.Is(err, kv.ErrCompacted):
		return compactedError(err, &ExpiredError{Message: fmt.Sprintf("The resourceVersion for the provided read is too old: %d", at)})
	case errors.Is(err, kv.ErrFutureRevision):
		current, err := s.backend.CurrentRevision(ctx)
		if err != nil {
			return fmt.Errorf("get %s: %w", key, err)
		}
		return &FutureRevisionError{Requested: int64(at), Current: int64(current)}
	}
	return fmt.Errorf("get %s: %w", key, err)
}

// compactedError returns an *ExpiredError with the message of the *kv.CompactedError that err wraps. It
// returns other if err does not wrap one.
func compactedError(err, other error) error {
	var compacted *kv.CompactedError
	if errors.As(err, &compacted) {
		return &ExpiredError{Message: compacted.Message}
	}
	return other
}

// Cached implements Interface. A Store has no objects in memory.
func (s *Store) Cached() (objects, bytes int64, known bool) { return 0, 0, false }

// Count implements Interface.
func (s *Store) Count(ctx context.Context) (int64, error) {
	res, err := s.backend.Range(ctx, kv.RangeRequest{Start: s.prefix, End: kv.PrefixEnd(s.prefix), CountOnly: true})
	if err != nil {
		return 0, fmt.Errorf("count %s: %w", s.prefix, err)
	}
	return res.Count, nil
}
