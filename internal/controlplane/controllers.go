package controlplane

import (
	"context"
	"fmt"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/util/uuid"

	"mainstay.dev/mainstay/internal/apis/bootstrap"
	"mainstay.dev/mainstay/internal/authorizer"
	"mainstay.dev/mainstay/internal/controllers"
	"mainstay.dev/mainstay/internal/controllers/accounttokens"
	"mainstay.dev/mainstay/internal/controllers/bootstraptokens"
	"mainstay.dev/mainstay/internal/controllers/certificates"
	"mainstay.dev/mainstay/internal/controllers/changes"
	"mainstay.dev/mainstay/internal/controllers/clusterroles"
	"mainstay.dev/mainstay/internal/controllers/election"
	"mainstay.dev/mainstay/internal/controllers/garbage"
	"mainstay.dev/mainstay/internal/controllers/legacytokens"
	"mainstay.dev/mainstay/internal/controllers/namespace"
	"mainstay.dev/mainstay/internal/controllers/resourcequotas"
	"mainstay.dev/mainstay/internal/controllers/rootca"
	"mainstay.dev/mainstay/internal/controllers/serviceaccounts"
	"mainstay.dev/mainstay/internal/controllers/storagemigration"
	"mainstay.dev/mainstay/internal/controllers/storageprotection"
	"mainstay.dev/mainstay/internal/controllers/storageversions"
	"mainstay.dev/mainstay/internal/controllers/ttlafterfinished"
	"mainstay.dev/mainstay/internal/controllers/work"
	"mainstay.dev/mainstay/internal/loopback"
	"mainstay.dev/mainstay/internal/registry/quota"
	"mainstay.dev/mainstay/internal/request"
	"mainstay.dev/mainstay/internal/storage/kv"
)

// policyStatusController is the name of the controller that checks the types in the expressions of policies. In
// this server, they are checked when a policy is written, so the controller has no work.
const policyStatusController = "validatingadmissionpolicy-status-controller"

// allControllers returns the controllers that can run in the server. To add a controller, add a package to
// controllers and an entry to this list.
func allControllers() []controllers.Registration {
	return slices.Concat([]controllers.Registration{
		clusterroles.Registration(),
		serviceaccounts.Registration(),
		accounttokens.Registration(),
		rootca.Registration(),
		namespace.Registration(),
		garbage.Registration(),
		ttlafterfinished.Registration(),
		resourcequotas.Registration(),
		legacytokens.Registration(),
		bootstraptokens.CleanerRegistration(),
		bootstraptokens.SignerRegistration(),
		storagemigration.Registration(),
		storageversions.Registration(),
		{Name: policyStatusController},
	}, storageprotection.Registrations(), certificates.Registrations())
}

// Controllers returns the sorted names of the controllers that can run in the server. The names are the same as
// in kube-controller-manager.
func Controllers() []string {
	return controllerNames(func(controllers.Registration) bool { return true })
}

// OptionalControllers returns the sorted names of the controllers that run only if
// ControllerOptions.Names lists them, as in kube-controller-manager.
func OptionalControllers() []string {
	return controllerNames(func(r controllers.Registration) bool { return r.Optional })
}

func controllerNames(selects func(controllers.Registration) bool) []string {
	var names []string
	for _, r := range allControllers() {
		if selects(r) {
			names = append(names, r.Name)
		}
	}
	slices.Sort(names)
	return names
}

// controllerSet runs the controllers of a control plane.
type controllerSet struct {
	settings *settings
	access   *loopback.Access
	builtin  *builtinResources
	manager  *controllerManager
	// selected contains the names of the controllers that the options enable. enabled contains those selected
	// controllers that have work in this control plane.
	selected map[string]bool
	enabled  []enabledController
	// queues contains the work queues of the controllers that run in this server. Until scan has ended,
	// existing objects might not be enqueued yet.
	queues work.Set
	scan   scan
	// feed reports changes to the controllers; nil while no controllers run in this server.
	feed atomic.Pointer[changes.Feed]
	// quiet is the state that the last call of isIdle recorded, or nil if it recorded none. Only isIdle uses
	// it.
	quiet *quiet
}

// scan is the last changes.Subscriber of a feed. ended reports whether all existing objects have been reported
// to the subscribers before it.
type scan struct{ ended atomic.Bool }

// Reset implements changes.Subscriber.
func (s *scan) Reset() { s.ended.Store(false) }

// Changed implements changes.Subscriber.
func (*scan) Changed(*changes.Change) {}

// Synced implements changes.Subscriber.
func (s *scan) Synced() { s.ended.Store(true) }

// pendingWork implements ControlPlane.PendingWork.
func (c *controllerSet) pendingWork() (busy bool, due time.Time, known bool) {
	ended := c.scan.ended.Load()
	busy, due, known = c.queues.Pending()
	return busy || known && !ended, due, known
}

// quiet is the state at a point in time at which no controller was busy.
type quiet struct {
	feed *changes.Feed
	// newest contains the newest revisions at that time. reported is the number of reported changes and
	// finished is the number of processed keys shortly before.
	newest             []kv.Revision
	reported, finished int64
}

// isIdle implements ControlPlane.IsIdle. Controllers are idle if they were not busy at the last call, have
// received all changes up to that call, and have processed nothing since then.
func (c *controllerSet) isIdle(ctx context.Context) bool {
	last, feed := c.quiet, c.feed.Load()
	c.quiet = nil
	if busy, _, _ := c.pendingWork(); busy || feed == nil {
		return !busy
	}
	now := &quiet{feed: feed, reported: feed.Reported(), finished: c.queues.Finished()}
	if last != nil && last.feed == feed && last.reported == now.reported && last.finished == now.finished && feed.HasReported(last.newest) {
		return true
	}
	var err error
	if now.newest, err = feed.Newest(ctx); err == nil {
		c.quiet = now
	}
	return false
}

type enabledController struct {
	name string
	controllers.Controller
}

// newControllers creates the enabled controllers. reporter is nil if storage versions are not
// reported.
func newControllers(s *settings, r *resources, authorizer authorizer.Authorizer, ledger *quota.Ledger, reporter *storageversions.Reporter) (*controllerSet, error) {
	manager, err := newControllerManager(r.access, r.builtin)
	if err != nil {
		return nil, err
	}
	set := &controllerSet{settings: s, access: r.access, builtin: r.builtin, manager: manager, selected: map[string]bool{}}
	dependencies := newControllerDependencies(s, r, authorizer, ledger)
	dependencies.ReportsStorageVersions = reporter != nil
	for _, registration := range allControllers() {
		if !s.options.Controllers.enabled(registration.Name) {
			continue
		}
		set.selected[registration.Name] = true
		if registration.New == nil {
			continue
		}
		created, err := registration.New(dependencies)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", registration.Name, err)
		}
		if created != nil {
			set.enabled = append(set.enabled, enabledController{registration.Name, created})
		}
	}
	return set, nil
}

func newControllerDependencies(s *settings, r *resources, authorizer authorizer.Authorizer, ledger *quota.Ledger) controllers.Dependencies {
	identity, stored := &s.env.Identity, newStoredResources(r)
	return controllers.Dependencies{
		Access:      r.access,
		OpenStorage: r.builtin.uncached,
		Objects:     controllers.Objects{Prefix: s.keyPrefix(), Decrypt: newDecrypt(s), Resources: stored},
		Authorizer:  authorizer,
		Keys:        controllers.Keys{SigningAuthority: identity.Signing, ServingCA: identity.ServingCA, SignToken: identity.TokenKeys.Sign},
		Quotas:      ledger,
		List:        newQuotaLister(stored),
		DeleteRemote: func(ctx context.Context, user *request.User, namespace string) controllers.RemoteContent {
			return deleteRemote(ctx, r.registrations, user, namespace)
		},
		ServerIdentities: bootstrap.IdentitySelector(),
		Settings: controllers.Settings{
			NamespaceGrace: s.options.Controllers.NamespaceGrace, SigningDuration: s.options.Controllers.ClusterSigningDuration,
			LegacyTokenPeriod: s.options.Controllers.LegacyTokenCleanUpPeriod, KeepUnknownOwners: s.options.Controllers.KeepUnknownOwners,
		},
		Logger:       s.env.Telemetry.Logger,
		QueueMetrics: s.env.Telemetry.Metrics.Queues,
	}
}

// controllerOf returns the enabled controller of a type, or nil. It is for components that call a controller
// while they handle a request.
func controllerOf[C interface {
	comparable
	controllers.Controller
}](set *controllerSet) C {
	for _, c := range set.enabled {
		if found, ok := c.Controller.(C); ok {
			return found
		}
	}
	var none C
	return none
}

// newDecrypt returns a function that decrypts the values which controllers read directly from the backend. It
// returns nil if values are not encrypted.
func newDecrypt(s *settings) changes.Decrypt {
	transformers := s.env.Storage.Transformer
	if transformers == nil {
		return nil
	}
	keys := NewKeys(s.prefix)
	return func(ctx context.Context, key string, value []byte) []byte {
		resource, _ := keys.Resource(key)
		transformer := transformers(resource)
		if transformer == nil {
			return value
		}
		plain, _, err := transformer.FromStorage(ctx, value, key)
		if err != nil {
			return value // the reader reports that it cannot decode the value
		}
		return plain
	}
}

// runsAnywhere reports whether a controller runs in this server, in another server with the same
// flags, or in a kube-controller-manager.
func (c *controllerSet) runsAnywhere(ctx context.Context, name string) bool {
	return c.selected[name] || c.manager.running(ctx)
}

// component returns the component that runs the controllers. It has no loop if no controllers are enabled.
func (c *controllerSet) component() component {
	if len(c.enabled) == 0 {
		return component{name: controllerLoops}
	}
	return component{controllerLoops, nil, c.run}
}

// run runs the controllers until ctx ends. If other processes might use the store, the controllers run only
// while this process is the elected leader.
func (c *controllerSet) run(ctx context.Context) error {
	if !c.settings.env.Storage.Shared {
		c.lead(ctx)
		return nil
	}
	election.New(election.Config{
		Access: c.access, Storage: c.manager.leases, Identity: candidateIdentity(), Logger: c.settings.env.Telemetry.Logger,
	}).Run(ctx, c.lead)
	return nil
}

// candidateIdentity returns an identity for the election that is unique to this process.
func candidateIdentity() string {
	host, err := os.Hostname()
	if err != nil {
		host = "mainstay"
	}
	return host + "_" + string(uuid.NewUUID())
}

// lead runs the controllers until ctx ends. It restarts them when a kube-controller-manager starts
// or stops.
func (c *controllerSet) lead(ctx context.Context) {
	for managerRuns := false; ctx.Err() == nil; {
		managerRuns = c.runUntilManagerChanges(ctx, managerRuns)
	}
}

// runUntilManagerChanges runs the current selection of controllers until a kube-controller-manager starts or
// stops. It reports whether a kube-controller-manager was running during the call; before is the result of
// the previous call.
func (c *controllerSet) runUntilManagerChanges(ctx context.Context, before bool) (managerRuns bool) {
	c.scan.Reset()
	ctx, cancel := context.WithCancel(work.WithSet(ctx, &c.queues))
	defer cancel()
	logger := c.settings.env.Telemetry.Logger
	external := &election.ExternalManager{LeaseName: managerLease, LeaseExpiry: c.manager.leaseExpiry, Changed: cancel}
	managerRuns, subscriber := external.Start(ctx)
	switch {
	case managerRuns:
		logger.Info("a kube-controller-manager runs; this server runs only the controllers that --controllers lists")
	case before:
		logger.Info("the kube-controller-manager has stopped; this server runs the controllers again")
	}
	subscribers := []changes.Subscriber{subscriber}
	if own := c.settings.options.Changes; own != nil {
		subscribers = append(subscribers, own)
		defer own.Stopped()
	}
	for _, enabled := range c.enabled {
		if managerRuns && !c.settings.options.Controllers.named(enabled.name) {
			continue
		}
		s, wait := enabled.Start(ctx)
		defer wait()
		subscribers = append(subscribers, s)
	}
	subscribers = append(subscribers, &c.scan)
	defer cancel() // runs before the deferred calls of wait
	env := &c.settings.env.Storage
	feed := changes.New(changes.Config{
		Backend: env.Backend, Overrides: c.builtin.overrides(env.Backend), Decrypt: newDecrypt(c.settings), Prefix: c.settings.prefix,
		IsBuiltinPath: c.builtin.rows.StoresPath, Logger: logger,
	}, subscribers...)
	c.feed.Store(feed)
	defer c.feed.Store(nil)
	feed.Run(ctx)
	return managerRuns
}
