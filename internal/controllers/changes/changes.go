// Package changes contains the change feed of the controllers. A feed reads the store of a control plane once
// for all controllers: first it reports all objects, and then each change in revision order, as stored bytes.
// The feed has no cache, and ParseMeta decodes only the metadata of an object.
package changes

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"strings"
	"sync/atomic"

	"mainstay.dev/mainstay/internal/rest"
	"mainstay.dev/mainstay/internal/storage/kv"
	"mainstay.dev/mainstay/internal/storage/reflector"
)

// pageSize is the number of objects per read.
const pageSize = 128

// Change is a change to an object, or an object that existed when the feed started.
type Change struct {
	// Path is the storage path of the resource, for example "pods", "services/specs" or
	// "example.com/widgets".
	Path            string
	Namespace, Name string
	// Value is the stored object after decryption; nil if the object was deleted. Prev is the previous value;
	// nil if the object was created or if the previous value is unknown.
	Value, Prev []byte
	// Revision is the revision of the change. Changes in the same transaction have the same revision.
	Revision int64
	// SeparateStore reports whether the object is in a separate store, which has its own revisions.
	SeparateStore bool
}

// Subscriber receives the changes for a controller. One goroutine calls the methods of all subscribers, so they
// must return quickly; longer work belongs in a queue.
type Subscriber interface {
	// Reset is called before all objects are reported, that is, at the start and after changes may have been
	// missed. Objects that are not reported by the next call of Synced no longer exist.
	Reset()
	// Changed is called for each existing object after Reset, and then for each change. All subscribers share c
	// and its slices, which must not be modified.
	Changed(c *Change)
	// Synced is called once Changed has been called for all existing objects.
	Synced()
}

// Decrypt decrypts the value of a key. If decryption fails, it returns the value unchanged, so that ParseMeta
// returns an error. A nil Decrypt means that values are not encrypted. A Decrypt must be safe for concurrent
// use.
type Decrypt func(ctx context.Context, key string, value []byte) []byte

// Value decrypts a value. It returns the value unchanged if p or the value is nil.
func (p Decrypt) Value(ctx context.Context, key string, value []byte) []byte {
	if p == nil || value == nil {
		return value
	}
	return p(ctx, key, value)
}

// Config configures a Feed. All fields except Decrypt and Overrides are required.
type Config struct {
	Backend kv.Backend
	// Overrides contains the separate backends of built-in resources, by storage path.
	Overrides map[string]kv.Backend
	Decrypt   Decrypt
	// Prefix is the prefix of all keys, such as "/registry".
	Prefix string
	// IsBuiltinPath reports whether a path is the storage path of a built-in resource.
	IsBuiltinPath func(path string) bool
	Logger        *slog.Logger
}

// Feed reports the changes of a store to its subscribers. Run must not be called concurrently.
type Feed struct {
	config      Config
	prefix      string
	subscribers []Subscriber
	// backends contains Config.Backend and the distinct backends in Config.Overrides.
	backends []kv.Backend
	// following contains the sources while the feed watches them; it is nil until all objects have been
	// reported.
	following atomic.Pointer[[]*source]
	count     atomic.Int64 // number of reported objects and changes
}

// New creates a feed without starting it. Subscribers are called in the given order.
func New(config Config, subscribers ...Subscriber) *Feed {
	f := &Feed{config: config, prefix: "/" + strings.Trim(config.Prefix, "/") + "/", subscribers: subscribers, backends: []kv.Backend{config.Backend}}
	for _, backend := range config.Overrides {
		if !slices.Contains(f.backends, backend) {
			f.backends = append(f.backends, backend)
		}
	}
	return f
}

// Run reports objects and changes until ctx ends. After an error, it logs the error, waits with a backoff, and
// starts again with Reset.
func (f *Feed) Run(ctx context.Context) {
	backoff := reflector.Backoff(reflector.MaxBackoff)
	for ctx.Err() == nil {
		synced, err := f.follow(ctx)
		if errors.Is(err, kv.ErrClosed) {
			<-ctx.Done() // there are no more changes
		}
		if ctx.Err() != nil {
			return
		}
		if synced {
			backoff = reflector.Backoff(reflector.MaxBackoff)
		}
		f.config.Logger.Warn("the change feed failed; controllers read all objects again", "prefix", f.config.Prefix, "err", err)
		if reflector.Sleep(ctx, &backoff) != nil {
			return
		}
	}
}

// follow reports all objects, and then changes until an error occurs. If a subscriber panics, it returns an
// error. synced reports whether all objects were reported.
func (f *Feed) follow(ctx context.Context) (synced bool, err error) {
	defer func() {
		if reason := recover(); reason != nil {
			err = fmt.Errorf("panic: %v\n%s", reason, debug.Stack())
		}
	}()
	sources, err := f.pinSources(ctx)
	if err != nil {
		return false, err
	}
	defer release(sources)
	for _, s := range f.subscribers {
		s.Reset()
	}
	for _, source := range sources {
		if err := f.readAll(ctx, source); err != nil {
			return false, err
		}
	}
	release(sources)
	for _, s := range f.subscribers {
		s.Synced()
	}
	f.following.Store(&sources)
	defer f.following.Store(nil)
	if len(sources) == 1 {
		return true, f.watchSource(ctx, sources[0], f.dispatchBatch)
	}
	return true, f.watchAll(ctx, sources)
}

// watchSource reports the changes of a source since its revision. If a watch ends, it starts another one,
// unless the watch has made no progress.
func (f *Feed) watchSource(ctx context.Context, s *source, pass func(context.Context, *source, kv.Batch)) error {
	for {
		from := s.revision
		err := f.watchOnce(ctx, s, pass)
		if s.revision == from || errors.Is(err, kv.ErrCompacted) || ctx.Err() != nil {
			return err
		}
	}
}

// readAll reports all objects of a source at its revision.
func (f *Feed) readAll(ctx context.Context, s *source) error {
	next, end := f.prefix, kv.PrefixEnd(f.prefix)
	for {
		page, err := s.backend.Range(ctx, kv.RangeRequest{Start: next, End: end, At: s.revision, Limit: pageSize})
		if err != nil {
			return fmt.Errorf("read all objects: %w", err)
		}
		for i := range page.Entries {
			f.dispatch(ctx, s, page.Entries[i].Key, page.Entries[i].Value, nil, page.Entries[i].Modified)
		}
		if !page.More || len(page.Entries) == 0 {
			return nil
		}
		next = page.Entries[len(page.Entries)-1].Key + "\x00"
	}
}

// watchOnce reports the changes of a source since its revision until the watch ends. It advances the source's
// revision.
func (f *Feed) watchOnce(ctx context.Context, s *source, pass func(context.Context, *source, kv.Batch)) error {
	w, err := s.backend.Watch(ctx, f.prefix, kv.PrefixEnd(f.prefix), s.revision+1)
	if err != nil {
		return fmt.Errorf("watch everything: %w", err)
	}
	defer w.Stop()
	for batch := range w.Batches() {
		pass(ctx, s, batch)
		s.revision = max(s.revision, batch.Revision)
	}
	return fmt.Errorf("watch everything: %w", w.Err())
}

func (f *Feed) dispatchBatch(ctx context.Context, s *source, batch kv.Batch) {
	for i := range batch.Events {
		e := &batch.Events[i]
		var prev []byte
		if e.Prev != nil {
			prev = e.Prev.Value
		}
		f.dispatch(ctx, s, e.Key, e.Value, prev, e.Revision)
	}
	s.reported.Store(max(s.reported.Load(), int64(batch.Revision)))
}

// Newest returns the newest revision of each backend. Each of these revisions includes every commit to the
// backend that was acknowledged before the call. Newest blocks until all backends have responded, and returns
// the first error. The caller owns the slice.
func (f *Feed) Newest(ctx context.Context) ([]kv.Revision, error) {
	newest := make([]kv.Revision, len(f.backends))
	for i, backend := range f.backends {
		var err error
		if newest[i], err = backend.CurrentRevision(ctx); err != nil {
			return nil, fmt.Errorf("read the newest revision: %w", err)
		}
	}
	return newest, nil
}

// HasReported reports whether all changes up to the given revisions were reported to the subscribers. revisions
// is a result of Newest. If no keys of the feed change, the result may be false until the backends report their
// progress; see kv.Backend.RequestProgress. HasReported is safe for concurrent use.
func (f *Feed) HasReported(revisions []kv.Revision) bool {
	sources := f.following.Load()
	if sources == nil {
		return false
	}
	for i, s := range *sources {
		if s.reported.Load() < int64(revisions[i]) {
			return false
		}
	}
	return true
}

// Reported returns the number of objects and changes that have been reported so far.
func (f *Feed) Reported() int64 { return f.count.Load() }

func (f *Feed) dispatch(ctx context.Context, s *source, key string, value, prev []byte, revision kv.Revision) {
	c, ok := f.parseKey(key)
	if !ok || f.backendOf(c.Path) != s.backend {
		return // not an object, or an old copy from before the override was configured
	}
	c.SeparateStore = s.backend != f.config.Backend
	c.Value, c.Prev = f.config.Decrypt.Value(ctx, key, value), f.config.Decrypt.Value(ctx, key, prev)
	c.Revision = int64(revision)
	f.count.Add(1)
	for _, s := range f.subscribers {
		s.Changed(&c)
	}
}

// parseKey returns a Change that contains the path, namespace and name in a key. ok is false if the key does
// not identify an object. The path of a built-in resource has one or two segments; the path of a custom
// resource consists of its group and resource.
func (f *Feed) parseKey(key string) (c Change, ok bool) {
	rest := strings.TrimPrefix(key, f.prefix)
	first, tail, ok := strings.Cut(rest, "/")
	if !ok {
		return c, false
	}
	path := first
	if !f.config.IsBuiltinPath(first) {
		second, _, ok := strings.Cut(tail, "/")
		if !ok {
			return c, false
		}
		path = rest[:len(first)+1+len(second)]
		tail = tail[len(second)+1:]
	}
	c.Path, c.Name = path, tail
	if namespace, name, ok := strings.Cut(tail, "/"); ok {
		c.Namespace, c.Name = namespace, name
	}
	return c, c.Name != ""
}

// Resource is a resource whose objects are in this server's stores.
type Resource struct {
	*rest.Resource
	// Path is the storage path of the objects, as in Change. Backend is the backend that stores them.
	Path    string
	Backend kv.Backend
}

// Key returns the storage key of an object. prefix is the prefix of all keys, such as "/registry". namespace is
// "" for cluster-scoped objects.
func (r Resource) Key(prefix, namespace, name string) string {
	if namespace == "" {
		return prefix + "/" + r.Path + "/" + name
	}
	return prefix + "/" + r.Path + "/" + namespace + "/" + name
}
