package fleet

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/semaphore"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/apis/bootstrap"
	"mainstay.dev/mainstay/internal/apis/controlplanes"
	"mainstay.dev/mainstay/internal/controlplane"
	"mainstay.dev/mainstay/internal/storage/kv"
	"mainstay.dev/mainstay/internal/storage/kv/overlay"
)

// templates contains the initial objects of control planes: the default roles, namespaces and other objects of
// every cluster. They are stored once for all control planes. A control plane keeps its template. When a newer
// version of the server opens the control plane, it also creates the newer default objects, as in a cluster
// after an upgrade. templates is safe for concurrent use.
type templates struct {
	fleet   *Fleet
	prepare sync.Once
	// recording is a lock that is held while the current template is recorded.
	recording *semaphore.Weighted
	mu        struct {
		sync.Mutex
		version string // version of the current template; "" before it is recorded
		// read contains the templates that were read, by version. Their objects are encoded with
		// bootstrap.SeedUID and bootstrap.SeedTime instead of real UIDs and times.
		read map[string]*overlay.Entries
	}
}

func newTemplates(f *Fleet) *templates {
	t := &templates{fleet: f, recording: semaphore.NewWeighted(1)}
	t.mu.read = map[string]*overlay.Entries{}
	return t
}

// key returns the storage key of the template with the given version.
func (t *templates) key(version string) string {
	return t.fleet.config.Prefix + controlplanes.TemplatesKey + "/" + version
}

// current returns the version of the template for new control planes; "" before this process has recorded it.
func (t *templates) current() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.mu.version
}

// prepareOnce records the template in the background, so that the first request to the first new control plane
// need not wait for the recording. reconcile calls it.
func (t *templates) prepareOnce() {
	t.prepare.Do(func() {
		t.fleet.running.Go(func() {
			_, _ = t.ensure(t.fleet.lifetime, t.fleet.now()) // ensureKeys tries again, and reports the error
		})
	})
}

// ensure records and stores the template for new control planes if necessary, and returns its version. It
// returns "" if templates cannot represent the time now.
func (t *templates) ensure(ctx context.Context, now time.Time) (string, error) {
	if !bootstrap.SetIdentity(nil, now, "") {
		return "", nil
	}
	if version := t.current(); version != "" {
		return version, nil
	}
	if err := t.recording.Acquire(ctx, 1); err != nil {
		return "", err
	}
	defer t.recording.Release(1)
	if version := t.current(); version != "" {
		return version, nil
	}
	encoded, err := t.record(ctx)
	if err != nil {
		return "", fmt.Errorf("record the default objects of control planes: %w", err)
	}
	sum := sha256.Sum256(encoded)
	version := hex.EncodeToString(sum[:8])
	// The commit is not an error if the template already exists.
	_, err = t.fleet.config.Backend.Commit(ctx, kv.Op{Key: t.key(version), Kind: kv.OpPut, Value: encoded})
	if err != nil {
		return "", fmt.Errorf("store the default objects of control planes: %w", err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.mu.version = version
	return version, nil
}

// record returns the encoded objects of a new control plane.
func (t *templates) record(ctx context.Context) ([]byte, error) {
	store, err := t.fleet.config.Scratch()
	if err != nil {
		return nil, err
	}
	defer store.Close()
	env := *t.fleet.config.Env
	env.Storage, env.Authorization, env.Paths = controlplane.Storage{Backend: store}, controlplane.Authorization{}, nil
	env.Network.Endpoint, env.Network.PeerAuthorities = netip.Addr{}, nil
	if env.Telemetry.Metrics, err = controlplane.NewMetrics(prometheus.NewRegistry(), env.Network.Hostname); err != nil {
		return nil, err
	}
	objects, err := controlplane.DefaultObjects(ctx, &env, t.fleet.commonOptions())
	if err != nil {
		return nil, err
	}
	return bootstrap.EncodeSeed(objects)
}

// get returns the stored template with the given version, or nil if there is none.
func (t *templates) get(ctx context.Context, version string) (*overlay.Entries, error) {
	t.mu.Lock()
	known := t.mu.read[version]
	t.mu.Unlock()
	if known != nil {
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
	found := overlay.NewEntries(entry.Created, entries)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.mu.read[version] = found
	return found, nil
}

// templateBase is a template as the base of one control plane. It sets UIDs and times in the objects.
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

// Scan implements overlay.Base.
func (b *templateBase) Scan(start, end string, size int) overlay.Cursor {
	return &templateCursor{b, b.Entries.Scan(start, end, size)}
}

// templateCursor returns the entries of a template, adapted to one control plane.
type templateCursor struct {
	base   *templateBase
	shared overlay.Cursor
}

// Next implements overlay.Cursor.
func (c *templateCursor) Next(ctx context.Context) (*kv.Entry, error) {
	e, err := c.shared.Next(ctx)
	if e == nil || err != nil {
		return nil, err
	}
	return e, c.base.adapt(ctx, e)
}

// adapt replaces the value of an entry with the value for this control plane.
func (b *templateBase) adapt(ctx context.Context, e *kv.Entry) error {
	e.Value = slices.Clone(e.Value)
	bootstrap.SetIdentity(e.Value, b.created, b.uidOf(e.Key))
	if b.fleet.config.Env.Storage.Transformer == nil {
		return nil
	}
	// The value must be encrypted, because readers decrypt all values.
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
