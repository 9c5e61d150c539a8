// Package fleet runs the control planes that ControlPlane objects in the root control plane declare. A
// control plane is served below /clusters/NAME/. The fleet opens a control plane on its first request, and
// closes it when it is idle. The keys of a control plane are below a prefix of the host's store that contains
// the UID of its object, so that a new control plane does not have the objects of a deleted control plane with
// the same name.
package fleet

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/apis/controlplanes"
	"mainstay.dev/mainstay/internal/controllers/work"
	"mainstay.dev/mainstay/internal/controlplane"
	"mainstay.dev/mainstay/internal/loopback"
	"mainstay.dev/mainstay/internal/storage/cache"
	"mainstay.dev/mainstay/internal/storage/kv"
	"mainstay.dev/mainstay/internal/storage/kv/fanout"
	"mainstay.dev/mainstay/internal/storage/kv/overlay"
	"mainstay.dev/mainstay/internal/storage/reflector"
)

// DefaultIdle is the default of Config.Idle.
const DefaultIdle = 5 * time.Minute

// Config configures a Fleet. Fields are required unless noted.
type Config struct {
	// Root is the control plane with the ControlPlane objects. It must be open.
	Root *controlplane.ControlPlane
	// Env is the environment of the root control plane.
	Env *controlplane.Env
	// Backend is the store of the root control plane. The fleet attaches the bases of control planes to it.
	Backend *overlay.Backend
	// Keys maps storage keys to resources; nil if values are not encrypted.
	Keys *controlplane.Keys
	// Scratch opens an empty store in memory, which the fleet closes.
	Scratch func() (kv.Backend, error)
	// Feed is the change feed of the keys below Prefix in Backend; nil disables watch caches.
	Feed *cache.Feed
	// Options are the options of the root control plane, with defaults applied. They apply to all control
	// planes, except for authentication, authorization and addresses.
	Options controlplane.Options
	// Prefix is the prefix of the keys of all control planes, with a slash at its end; see
	// controlplanes.KeyPrefix.
	Prefix string
	// RootPrefix is the prefix of the keys of the objects of the root control plane, with a slash at its end.
	RootPrefix string
	// Idle is the time after the last request or watch after which a control plane is closed; 0 selects
	// DefaultIdle.
	Idle time.Duration
	// Metrics are the metrics of the fleet; nil disables them.
	Metrics *Metrics
}

// Fleet is the set of declared control planes. It is safe for concurrent use.
type Fleet struct {
	config   Config
	logger   *slog.Logger
	objects  *loopback.Client[*unstructured.Unstructured]
	secrets  *loopback.Client[*corev1.Secret]
	follower *reflector.Reflector // of the ControlPlane objects
	tokens   *reflector.Reflector // of the Secrets with kubeconfigs
	queue    *work.Queue[planeKey]
	shared   *controlplane.Shared
	// backend is the store of the control planes. Their watches share one watch of the host's store.
	backend *fanout.Backend
	// templates contains the initial objects of control planes.
	templates *templates
	// rejection responds to the requests that no control plane serves.
	rejection http.Handler

	// lifetime is canceled by Close. running counts the goroutines.
	lifetime context.Context
	stop     context.CancelFunc
	running  sync.WaitGroup
	// synced is closed when the existing ControlPlane objects and their tokens are known.
	synced chan struct{}

	mu struct {
		sync.RWMutex
		planes map[string]*plane // by name
		// hashes are the hashes of the administrators' tokens, by the UID of the control plane. The fleet
		// can receive a Secret before its ControlPlane object.
		hashes map[types.UID]tokenHash
		// waiting contains the forks that are reconciled again when their source is ready, by the name of
		// the source.
		waiting map[string][]planeKey
	}
}

// planeKey identifies a ControlPlane object. After a deletion, another object can have the same name.
type planeKey struct {
	name string
	uid  types.UID
}

// clone returns a key with its own memory. Without the copy, the key would retain the complete encoding of the
// object, because the strings of a decoded object share its memory.
func (k planeKey) clone() planeKey { return planeKey{strings.Clone(k.name), cloneUID(k.uid)} }

func cloneUID(uid types.UID) types.UID { return types.UID(strings.Clone(string(uid))) }

// workers is the number of ControlPlane objects that are reconciled at the same time. Concurrent writes share
// fsyncs.
const workers = 16

// Start starts a fleet. It returns before the fleet has received the existing objects. The caller must call
// Close. Start returns an error if the root control plane is not open, or the store cannot be watched.
func Start(config Config) (*Fleet, error) {
	if config.Idle == 0 {
		config.Idle = DefaultIdle
	}
	access, err := config.Root.Access()
	if err != nil {
		return nil, fmt.Errorf("start the control planes: %w", err)
	}
	access = access.As(nil, "mainstay")
	f := &Fleet{
		config: config, logger: config.Env.Telemetry.Logger, synced: make(chan struct{}), shared: controlplane.NewShared(),
		objects: loopback.For[*unstructured.Unstructured](access, controlplanes.Resource()),
		secrets: loopback.For[*corev1.Secret](access, corev1.SchemeGroupVersion.WithResource("secrets")),
	}
	f.templates = newTemplates(f)
	f.rejection = f.newRejection()
	f.mu.planes, f.mu.hashes, f.mu.waiting = map[string]*plane{}, map[types.UID]tokenHash{}, map[string][]planeKey{}
	f.lifetime, f.stop = context.WithCancel(context.Background())
	if f.backend, err = fanout.New(f.lifetime, config.Backend, config.Prefix); err == nil {
		err = f.newReflectors()
	}
	if err != nil {
		f.stop()
		return nil, fmt.Errorf("start the control planes: %w", err)
	}
	f.queue = work.New(f.lifetime, work.Config[planeKey]{
		Name: "controlplanes", Workers: workers, Sync: f.reconcile, Logger: f.logger, Metrics: config.Env.Telemetry.Metrics.Queues,
	})
	f.running.Go(func() { f.follower.Run(f.lifetime) })
	f.running.Go(func() { f.tokens.Run(f.lifetime) })
	f.running.Go(f.awaitSync)
	f.running.Go(f.runPeriodically)
	if config.Metrics != nil {
		config.Metrics.fleet.Store(f)
	}
	return f, nil
}

// awaitSync closes synced when the existing objects are known, and then reconciles them. It reconciles one
// object after another, so that thousands of objects do not delay requests. Finally, it deletes the keys of
// control planes that were deleted while no server was running.
func (f *Fleet) awaitSync() {
	for _, followed := range []*reflector.Reflector{f.follower, f.tokens} {
		select {
		case <-followed.Synced():
		case <-f.lifetime.Done():
			return
		}
	}
	close(f.synced)
	for _, p := range f.all() {
		if err := f.reconcile(f.lifetime, p.key); err != nil {
			f.queue.Add(p.key)
		}
	}
	if err := f.deleteOrphans(f.lifetime); err != nil && f.lifetime.Err() == nil {
		f.logger.Error("some objects of deleted control planes might remain in the store until the next start", "err", err)
	}
}

// period is the interval between status updates, and between searches for idle control planes.
const period = 30 * time.Second

// runPeriodically updates the usage in the status of control planes, closes idle control planes, and opens
// closed control planes whose controllers have work.
func (f *Fleet) runPeriodically() {
	ticker := time.NewTicker(min(period, f.config.Idle))
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			for _, p := range f.all() {
				if p.makeReportDue() {
					f.queue.Add(p.key)
				}
			}
			f.CloseIdle(f.config.Idle)
			f.openDue()
		case <-f.lifetime.Done():
			return
		}
	}
}

// maxDue is the maximum number of control planes that are opened for their controllers in each period. The
// limit bounds the memory use if thousands of control planes have work at the same time.
const maxDue = 32

// openDue opens closed control planes whose controllers have work, one after another.
func (f *Fleet) openDue() {
	opened := 0
	for _, p := range f.all() {
		if opened < maxDue && p.isDue() {
			opened++
			p.openForWork(f.lifetime)
		}
	}
}

// now returns the time of the server's clock, which tests can simulate.
func (f *Fleet) now() time.Time { return f.config.Env.Simulation.Now() }

// AddressChanged starts an update of the kubeconfigs of all control planes. The host calls it after its serving
// certificate may have changed. It does not block.
func (f *Fleet) AddressChanged() {
	for _, p := range f.all() {
		f.queue.Add(p.key)
	}
}

// CloseIdle closes the control planes that have had no request or watch for the given duration, and waits until
// they are closed. The first call for an idle control plane only records the state of its controllers; see
// controlplane.ControlPlane.IsIdle.
func (f *Fleet) CloseIdle(idle time.Duration) {
	waiting := false
	for _, p := range f.all() {
		waiting = p.closeIfIdle(idle) || waiting
	}
	if waiting { // the controllers might not have received all changes
		_ = f.backend.RequestProgress(f.lifetime) // after an error, the control planes stay open for another period
	}
}

// HasControlPlanes reports whether any ControlPlane object exists.
func (f *Fleet) HasControlPlanes() bool {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return len(f.mu.planes) > 0
}

// IsOpen reports whether the control plane with the given name is open.
func (f *Fleet) IsOpen(name string) bool {
	f.mu.RLock()
	p := f.mu.planes[name]
	f.mu.RUnlock()
	return p != nil && p.opened() != nil
}

// Close ends all requests of the control planes, closes them, and waits for all goroutines.
func (f *Fleet) Close() {
	f.stop()
	f.queue.Close()
	var closing sync.WaitGroup
	for _, p := range f.all() {
		closing.Go(func() { p.close() })
	}
	closing.Wait()
	f.running.Wait()
	f.backend.Wait()
}

// Defines reports whether an open control plane defines a custom resource.
func (f *Fleet) Defines(resource schema.GroupResource) bool {
	for _, p := range f.all() {
		if opened := p.opened(); opened != nil && opened.Defines(resource) {
			return true
		}
	}
	return false
}

// find returns the control plane with the given name, or nil if there is none. It waits until the existing
// objects are known.
func (f *Fleet) find(ctx context.Context, name string) (*plane, error) {
	select {
	case <-f.synced:
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-f.lifetime.Done():
		return nil, errStopping
	}
	f.mu.RLock()
	defer f.mu.RUnlock()
	return f.mu.planes[name], nil
}

// all returns all control planes.
func (f *Fleet) all() []*plane {
	f.mu.RLock()
	defer f.mu.RUnlock()
	all := make([]*plane, 0, len(f.mu.planes))
	for _, p := range f.mu.planes {
		all = append(all, p)
	}
	return all
}

// Errors of control planes that do not serve requests.
var (
	errPaused   = errors.New("the control plane is paused")
	errRemoved  = errors.New("the control plane is being deleted")
	errStopping = errors.New("the server is stopping")
)

// folder returns the prefix of all storage keys of a control plane, with a slash at its end.
func (f *Fleet) folder(uid types.UID) string {
	return f.config.Prefix + string(uid) + "/"
}
