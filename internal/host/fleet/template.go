package fleet

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/apis/bootstrap"
	"mainstay.dev/mainstay/internal/apis/controlplanes"
	"mainstay.dev/mainstay/internal/storage/kv"
	"mainstay.dev/mainstay/internal/storage/kv/overlay"
)

// templates contains the objects with which control planes begin: the default roles, namespaces and other
// objects of every cluster. They are stored once for all control planes. A control plane keeps the template of
// the version that created it; like a cluster, it receives the changes of a newer version when it opens. The
// struct is safe for concurrent use.
type templates struct {
	fleet *Fleet
	mu    sync.Mutex
	read  map[string]*template // by version
}

// template is an immutable set of encoded objects with bootstrap.SeedUID and bootstrap.SeedTime.
type template struct {
	entries  *overlay.Entries
	revision kv.Revision
}

// key returns the key of a template.
func (t *templates) key(version string) string {
	return t.fleet.config.Prefix + controlplanes.TemplatesKey + "/" + version
}

// ensure stores the template of this program if necessary, and returns its version. It returns "" if control
// planes cannot begin with a template, because their objects depend on the configuration.
func (t *templates) ensure(ctx context.Context) (version string, err error) {
	if !t.fleet.config.Root.CreatesRecordedObjects() {
		return "", nil
	}
	version = bootstrap.SeedVersion()
	if found, err := t.get(ctx, version); found != nil || err != nil {
		return version, err
	}
	_, err = t.fleet.config.Backend.Commit(ctx, kv.Op{Key: t.key(version), Kind: kv.OpPut, Value: bootstrap.EncodedSeed()})
	if err != nil {
		return "", fmt.Errorf("store the default objects of control planes: %w", err)
	}
	return version, nil
}

// get returns a stored template, or nil.
func (t *templates) get(ctx context.Context, version string) (*template, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if known := t.read[version]; known != nil {
		return known, nil
	}
	entry, _, err := t.fleet.config.Backend.Get(ctx, t.key(version), 0)
	if err != nil {
		return nil, fmt.Errorf("read the default objects of control planes: %w", err)
	}
	if entry == nil {
		return nil, nil
	}
	objects, err := bootstrap.DecodeSeed(entry.Value)
	if err != nil {
		return nil, fmt.Errorf("decode the default objects of control planes at %s: %w", entry.Key, err)
	}
	entries := make([]kv.Entry, len(objects))
	for i, o := range objects {
		entries[i] = kv.Entry{Key: o.Key, Value: o.Value, Created: entry.Created, Modified: entry.Created}
	}
	found := &template{overlay.NewEntries(entry.Created, entries), entry.Created}
	if t.read == nil {
		t.read = map[string]*template{}
	}
	t.read[version] = found
	return found, nil
}

// attach attaches the base of a control plane to its prefix. seeded reports that nothing was written since it was
// created from the current template. detach must be called after the control plane is closed.
func (f *Fleet) attach(ctx context.Context, uid types.UID, keys *keySet) (seeded bool, detach func(), err error) {
	if keys.template == "" {
		return false, func() {}, nil
	}
	found, err := f.templates.get(ctx, keys.template)
	if err == nil && found == nil {
		err = fmt.Errorf("the default objects of the control plane are missing in the store: %s", f.templates.key(keys.template))
	}
	if err != nil {
		return false, nil, err
	}
	prefix := f.objectPrefix(uid) + "/"
	written, err := f.config.Env.Storage.Backend.Range(ctx, kv.RangeRequest{Start: prefix, End: kv.PrefixEnd(prefix), Limit: 1})
	if err != nil {
		return false, nil, err
	}
	f.config.Backend.Attach(prefix, &templateBase{Entries: found.entries, fleet: f, uid: uid, created: keys.created})
	return len(written.Entries) == 0 && keys.template == bootstrap.SeedVersion(), func() { f.config.Backend.Detach(prefix) }, nil
}

// templateBase is a template as the base of one control plane, whose objects have their own UIDs and times.
type templateBase struct {
	*overlay.Entries
	fleet   *Fleet
	uid     types.UID
	created time.Time
}

// Get implements overlay.Base.
func (b *templateBase) Get(ctx context.Context, key string) (*kv.Entry, error) {
	e, err := b.Entries.Get(ctx, key)
	if e == nil || err != nil {
		return nil, err
	}
	own := *e
	return &own, b.adapt(ctx, &own)
}

// Range implements overlay.Base.
func (b *templateBase) Range(ctx context.Context, start, end string, limit int) ([]kv.Entry, bool, error) {
	entries, more, err := b.Entries.Range(ctx, start, end, limit)
	for i := range entries {
		if err = b.adapt(ctx, &entries[i]); err != nil {
			return nil, false, err
		}
	}
	return entries, more, err
}

// adapt sets the value of an entry of this control plane.
func (b *templateBase) adapt(ctx context.Context, e *kv.Entry) error {
	e.Value = slices.Clone(e.Value)
	bootstrap.SetIdentity(e.Value, b.created, b.uidOf(e.Key))
	if b.fleet.config.Env.Storage.Transformer == nil {
		return nil
	}
	// The storage decrypts all values.
	key := b.fleet.objectPrefix(b.uid) + "/" + e.Key
	resource, _ := b.fleet.config.Keys.Resource(key)
	value, err := b.fleet.transformerOf(resource).ToStorage(ctx, e.Value, key)
	if err != nil {
		return fmt.Errorf("encrypt the default objects of the control plane: %w", err)
	}
	e.Value = value
	return nil
}

// uidOf returns the UID of an object. It is a UUID of version 5 (RFC 9562), so that it needs no storage.
func (b *templateBase) uidOf(key string) types.UID {
	return types.UID(uuid.NewSHA1(uuid.NameSpaceURL, []byte(string(b.uid)+"/"+key)).String())
}
