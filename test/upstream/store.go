package upstream

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/apis/example"
	upstream "k8s.io/apiserver/pkg/storage"
	storagetesting "k8s.io/apiserver/pkg/storage/testing"
	"k8s.io/apiserver/pkg/storage/value"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/rest"
	"mainstay.dev/mainstay/internal/storage"
	"mainstay.dev/mainstay/internal/storage/kv"
)

// root is the prefix of all keys that the suites use.
const root = "/pods/"

// Store adapts Mainstay's storage of pods to upstream's storage.Interface.
type Store struct {
	objects     storage.Interface
	backend     kv.Backend
	scheme      *runtime.Scheme
	kind        *codec.Kind
	namespaced  bool
	cached      bool
	transformer *transformer
}

var _ upstream.Interface = (*Store)(nil)
var _ storagetesting.InterfaceWithPrefixTransformer = (*Store)(nil)
var _ storagetesting.InterfaceWithTransformerOverride = (*Store)(nil)

// name returns the name of the object that a key identifies. It returns false if the key does not identify an
// object.
func (s *Store) name(key string) (types.NamespacedName, bool) {
	switch parts := split(key); {
	case s.namespaced && len(parts) == 2:
		return types.NamespacedName{Namespace: parts[0], Name: parts[1]}, true
	case !s.namespaced && len(parts) == 1:
		return types.NamespacedName{Name: parts[0]}, true
	}
	return types.NamespacedName{}, false
}

func split(key string) []string {
	return strings.FieldsFunc(strings.TrimPrefix(key, root), func(r rune) bool { return r == '/' })
}

// Versioner implements upstream's Interface.
func (s *Store) Versioner() upstream.Versioner { return upstream.APIObjectVersioner{} }

// Create implements upstream's Interface.
func (s *Store) Create(ctx context.Context, key string, obj, out runtime.Object, ttl uint64) error {
	pod, err := s.toStored(obj)
	if err != nil {
		return err
	}
	if pod.ResourceVersion != "" {
		return upstream.ErrResourceVersionSetOnCreate // in Mainstay, the registry rejects it
	}
	record, err := s.objects.Create(ctx, pod, storage.WriteOptions{TTL: time.Duration(ttl) * time.Second})
	if err != nil {
		return s.explain(key, err)
	}
	return s.fromRecord(record, out)
}

// Get implements upstream's Interface.
func (s *Store) Get(ctx context.Context, key string, opts upstream.GetOptions, out runtime.Object) error {
	name, ok := s.name(key)
	err := storage.ErrNotFound
	if ok {
		var record *codec.Record
		record, err = s.objects.Get(ctx, name, storage.ReadOptions{ResourceVersion: opts.ResourceVersion})
		if err == nil {
			return s.fromRecord(record, out)
		}
	}
	if errors.Is(err, storage.ErrNotFound) && opts.IgnoreNotFound {
		*out.(*example.Pod) = example.Pod{}
		return nil
	}
	return s.explain(key, err)
}

// GetList implements upstream's Interface.
func (s *Store) GetList(ctx context.Context, key string, opts upstream.ListOptions, out runtime.Object) error {
	namespace, options := s.options(key, opts)
	if faults := storage.ValidateListOptions(options, false); len(faults) > 0 {
		return faults.ToAggregate()
	}
	list, err := s.objects.List(ctx, namespace, options)
	if err != nil {
		return s.explain(key, err)
	}
	pods := out.(*example.PodList)
	*pods = example.PodList{Items: []example.Pod{}}
	for record, err := range list.Items {
		if err != nil {
			return s.explain(key, err)
		}
		var pod example.Pod
		if err := s.fromRecord(record, &pod); err != nil {
			return err
		}
		pods.Items = append(pods.Items, pod)
	}
	pods.ResourceVersion = strconv.FormatInt(list.Revision, 10)
	pods.Continue, pods.RemainingItemCount = list.Continue, list.Remaining
	if pods.Continue != "" && strings.HasSuffix(key, "/") {
		pods.Continue, err = withoutSlash(pods.Continue)
	}
	return err
}

// withoutSlash converts the continue token of a list whose key ends with a slash to upstream's token for a key
// that does not. Lists with both forms of key accept both forms of token. The keys of most suites end with a
// slash, but the keys that a server uses for lists do not.
func withoutSlash(token string) (string, error) {
	data, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil {
		return "", fmt.Errorf("decode a continue token: %w", err)
	}
	trimmed := bytes.Replace(data, []byte(`"start":"/`), []byte(`"start":"`), 1)
	return base64.RawURLEncoding.EncodeToString(trimmed), nil
}

// options converts the options of a list or watch.
func (s *Store) options(key string, opts upstream.ListOptions) (namespace string, _ rest.ListOptions) {
	options := rest.ListOptions{
		Labels: opts.Predicate.Label, Fields: opts.Predicate.Field,
		ResourceVersion: opts.ResourceVersion, ResourceVersionMatch: opts.ResourceVersionMatch,
		Limit: opts.Predicate.Limit, Continue: opts.Predicate.Continue,
		AllowBookmarks: opts.Predicate.AllowWatchBookmarks, SendInitialEvents: opts.SendInitialEvents,
	}
	name, one := s.name(key)
	parts := split(key)
	switch {
	case !opts.Recursive && one:
		only := fields.OneTermEqualSelector("metadata.name", name.Name)
		if options.Fields != nil {
			only = fields.AndSelectors(options.Fields, only)
		}
		options.Fields = only
		return name.Namespace, options
	case opts.Recursive && len(parts) == 0:
	case opts.Recursive && len(parts) == 1 && s.namespaced:
		namespace = parts[0]
	default:
		options.Labels = labels.Nothing()
	}
	return namespace, options
}

// GuaranteedUpdate implements upstream's Interface.
func (s *Store) GuaranteedUpdate(ctx context.Context, key string, out runtime.Object, ignoreNotFound bool, preconditions *upstream.Preconditions, try upstream.UpdateFunc, cached runtime.Object) error {
	name, ok := s.name(key)
	if !ok {
		return upstream.NewKeyNotFoundError(key, 0)
	}
	options, err := s.updateOptions(ctx, name, preconditions, cached)
	if err != nil {
		return err
	}
	record, err := s.objects.Update(ctx, name, func(current *codec.Record) (codec.Object, storage.WriteOptions, error) {
		var pod example.Pod
		var meta upstream.ResponseMeta
		if current != nil {
			if err := s.fromRecord(current, &pod); err != nil {
				return nil, storage.WriteOptions{}, err
			}
			meta.ResourceVersion = uint64(current.Revision())
		} else if !ignoreNotFound {
			return nil, storage.WriteOptions{}, upstream.NewKeyNotFoundError(key, 0)
		} else if err := preconditions.Check(key, &pod); err != nil {
			return nil, storage.WriteOptions{}, err
		}
		updated, ttl, err := try(&pod, meta)
		if err != nil {
			return nil, storage.WriteOptions{}, err
		}
		var write storage.WriteOptions
		if ttl != nil {
			write.TTL = time.Duration(*ttl) * time.Second
		}
		stored, err := s.toStored(updated)
		return stored, write, err
	}, options)
	if err != nil {
		return s.explain(key, err)
	}
	return s.fromRecord(record, out)
}

// Delete implements upstream's Interface.
func (s *Store) Delete(ctx context.Context, key string, out runtime.Object, preconditions *upstream.Preconditions, validate upstream.ValidateObjectFunc, cached runtime.Object, deletion upstream.DeleteOptions) error {
	name, ok := s.name(key)
	if !ok {
		return upstream.NewKeyNotFoundError(key, 0)
	}
	if deletion.ExpectTransformOrDecodeError {
		_, err := s.objects.DeleteCorrupt(ctx, name, false)
		return s.explain(key, err)
	}
	options, err := s.updateOptions(ctx, name, preconditions, cached)
	if err != nil {
		return err
	}
	record, err := s.objects.Delete(ctx, name, func(obj codec.Object) error {
		var pod example.Pod
		if err := s.fromStored(obj.DeepCopyObject().(codec.Object), &pod); err != nil {
			return err
		}
		return validate(ctx, &pod)
	}, options)
	if err != nil {
		return s.explain(key, err)
	}
	return s.fromRecord(record, out)
}

// updateOptions converts preconditions and cached. cached is the object that the caller assumes to be current;
// it may be nil.
func (s *Store) updateOptions(ctx context.Context, name types.NamespacedName, preconditions *upstream.Preconditions, cached runtime.Object) (storage.UpdateOptions, error) {
	var options storage.UpdateOptions
	if preconditions != nil {
		options.Preconditions = &metav1.Preconditions{UID: preconditions.UID, ResourceVersion: preconditions.ResourceVersion}
	}
	if cached == nil {
		return options, nil
	}
	pod, err := s.toStored(cached)
	if err != nil {
		return options, err
	}
	revision, err := strconv.ParseInt(pod.ResourceVersion, 10, 64)
	if err != nil {
		return options, fmt.Errorf("read the resourceVersion of the suggested object: %w", err)
	}
	encoded, err := s.kind.EncodeStored(ctx, pod)
	if err != nil {
		return options, err
	}
	options.Cached = codec.NewRecord(s.kind, name, encoded, revision)
	return options, nil
}

// explain converts an error of Mainstay's storage to an error of upstream's package.
func (s *Store) explain(key string, err error) error {
	var precondition *storage.PreconditionError
	var future *storage.FutureRevisionError
	var damaged *damagedError
	var readable *storage.ReadableError
	switch {
	case errors.As(err, &readable):
		return upstream.NewInvalidObjError(readable.Key, readable.Error())
	case errors.As(err, &damaged):
		return upstream.NewInternalError(fmt.Errorf("unable to transform key %q: %w", strings.TrimPrefix(damaged.key, storage.DefaultPrefix), damaged.err))
	case errors.Is(err, storage.ErrNotFound):
		return upstream.NewKeyNotFoundError(key, 0)
	case errors.Is(err, storage.ErrExists):
		return upstream.NewKeyExistsError(key, 0)
	case errors.As(err, &precondition):
		return upstream.NewInvalidObjError(key, err.Error())
	case errors.As(err, &future):
		return upstream.NewTooLargeResourceVersionError(uint64(future.Requested), uint64(future.Current), 1)
	}
	return err
}

// Stats implements upstream's Interface. It does not report sizes.
func (s *Store) Stats(ctx context.Context) (upstream.Stats, error) {
	n, err := s.objects.Count(ctx)
	return upstream.Stats{ObjectCount: n}, err
}

// ReadinessCheck implements upstream's Interface.
func (s *Store) ReadinessCheck() error { return nil }

// RequestWatchProgress implements upstream's Interface.
func (s *Store) RequestWatchProgress(ctx context.Context) error {
	return s.backend.RequestProgress(ctx)
}

// GetCurrentResourceVersion implements upstream's Interface.
func (s *Store) GetCurrentResourceVersion(ctx context.Context) (uint64, error) {
	revision, err := s.backend.CurrentRevision(ctx)
	return uint64(revision), err
}

// EnableResourceSizeEstimation implements upstream's Interface.
func (s *Store) EnableResourceSizeEstimation(upstream.KeysFunc) error {
	return errors.New("sizes are not estimated")
}

// CompactRevision implements upstream's Interface.
func (s *Store) CompactRevision() int64 {
	revision, err := s.backend.CompactedRevision(context.Background())
	if err != nil {
		return 0
	}
	return int64(revision)
}

// UpdatePrefixTransformer implements storagetesting.InterfaceWithPrefixTransformer.
func (s *Store) UpdatePrefixTransformer(modify storagetesting.PrefixTransformerModifier) func() {
	return s.UpdateTransformer(func(original value.Transformer) value.Transformer {
		copied := *original.(*storagetesting.PrefixTransformer)
		return modify(&copied)
	})
}

// UpdateTransformer implements storagetesting.InterfaceWithTransformerOverride.
func (s *Store) UpdateTransformer(modify storagetesting.TransformerModifier) func() {
	original := s.transformer.current.Load()
	modified := modify(*original)
	s.transformer.current.Store(&modified)
	return func() { s.transformer.current.Store(original) }
}

// transformer is a storage.Transformer that delegates to an upstream transformer, which tests can replace.
type transformer struct {
	current atomic.Pointer[value.Transformer]
}

func newTransformer(t value.Transformer) *transformer {
	var exchanged transformer
	exchanged.current.Store(&t)
	return &exchanged
}

// FromStorage implements storage.Transformer.
func (t *transformer) FromStorage(ctx context.Context, data []byte, key string) ([]byte, bool, error) {
	plain, stale, err := (*t.current.Load()).TransformFromStorage(ctx, data, value.DefaultContext(key))
	if err != nil {
		return nil, false, &damagedError{key, err}
	}
	return plain, stale, nil
}

// ToStorage implements storage.Transformer.
func (t *transformer) ToStorage(ctx context.Context, plain []byte, key string) ([]byte, error) {
	return (*t.current.Load()).TransformToStorage(ctx, plain, value.DefaultContext(key))
}

// damagedError reports that the stored value of a key could not be read.
type damagedError struct {
	key string
	err error
}

func (e *damagedError) Error() string { return e.err.Error() }
func (e *damagedError) Unwrap() error { return e.err }

// failing returns a function that makes all values unreadable if its argument is true, and readable again if it
// is false.
func (s *Store) failing() func(bool) {
	restore := func() {}
	return func(fail bool) {
		restore()
		if fail {
			restore = s.UpdatePrefixTransformer(func(t *storagetesting.PrefixTransformer) value.Transformer {
				return storagetesting.NewPrefixTransformer([]byte("other"), false)
			})
		}
	}
}
