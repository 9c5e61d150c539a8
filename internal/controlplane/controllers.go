package controlplane

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagemigrationv1 "k8s.io/api/storagemigration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/controllers/accounttokens"
	"mainstay.dev/mainstay/internal/controllers/bootstraptokens"
	"mainstay.dev/mainstay/internal/controllers/certificates"
	"mainstay.dev/mainstay/internal/controllers/changes"
	"mainstay.dev/mainstay/internal/controllers/clusterroles"
	"mainstay.dev/mainstay/internal/controllers/election"
	"mainstay.dev/mainstay/internal/controllers/flowschemas"
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
	"mainstay.dev/mainstay/internal/rest"
	"mainstay.dev/mainstay/internal/storage"
)

// controller is a controller that runs in the server, on one of several servers.
type controller struct {
	name string
	beginner
}

// beginner is the work of a controller.
type beginner interface {
	// Begin starts the controller, which runs until ctx ends. It returns a subscriber of the change
	// feed, and a function that waits for the end.
	Begin(ctx context.Context) (changes.Subscriber, func())
}

// Controllers returns the names of the controllers that can run in the server, which
// are kube-controller-manager's.
func Controllers() []string {
	return slices.Sorted(slices.Values(slices.Concat([]string{
		accounttokens.Name, bootstraptokens.CleanerName, bootstraptokens.SignerName, clusterroles.Name, garbage.Name, legacytokens.Name, namespace.Name, policyStatus, resourcequotas.Name, rootca.Name, serviceaccounts.Name, storagemigration.Name, storageversions.Name, ttlafterfinished.Name,
	}, certificates.Names(), storageprotection.Names())))
}

// OptionalController runs only where --controllers names it, as in kube-controller-manager.
const OptionalController = bootstraptokens.SignerName

// policyStatus is the controller that checks the types of policy expressions. Here the write of a
// policy checks them, so the controller of kube-controller-manager finds no work.
const policyStatus = "validatingadmissionpolicy-status-controller"

func (o Options) checkControllers() error {
	var errs []error
	for _, name := range o.Controllers {
		if name != "*" && name != noControllers && !slices.Contains(Controllers(), strings.TrimPrefix(name, "-")) {
			errs = append(errs, fmt.Errorf("--controllers: there is no controller %q in this server, only %s", name, strings.Join(Controllers(), ", ")))
		}
	}
	return errors.Join(errs...)
}

// noControllers in Options.Controllers disables all controllers that are not named.
const noControllers = "-*"

// runs reports whether a controller is enabled.
func (o Options) runs(name string) bool {
	all := len(o.Controllers) == 0 || slices.Contains(o.Controllers, "*") && !slices.Contains(o.Controllers, noControllers)
	return slices.Contains(o.Controllers, name) || all && name != OptionalController && !slices.Contains(o.Controllers, "-"+name)
}

// runsBeside reports whether a controller is to run while kube-controller-manager,
// which has it too, runs: where the flag names it.
func (o Options) runsBeside(name string) bool { return slices.Contains(o.Controllers, name) }

// openControllers creates the controllers that run in the server.
func (i *instance) openControllers() error {
	i.conditions = flowschemas.New(i.lifetime, i.local, i.env.Logger)
	i.stored = newStoredResources(i)
	type opening struct {
		name string
		open func() error
	}
	all := []opening{
		{clusterroles.Name, i.openAggregation}, {serviceaccounts.Name, i.openServiceAccounts}, {accounttokens.Name, i.openAccountTokens}, {rootca.Name, i.openRootCA},
		{namespace.Name, i.openNamespaces}, {garbage.Name, i.openGarbageCollector}, {ttlafterfinished.Name, i.openTTLAfterFinished},
		{resourcequotas.Name, i.openResourceQuotas}, {legacytokens.Name, i.openLegacyTokens},
		{bootstraptokens.CleanerName, i.openTokenCleaner}, {storagemigration.Name, i.openStorageMigration}, {storageversions.Name, i.openStorageVersionCollector}, {bootstraptokens.SignerName, i.openBootstrapSigner},
	}
	for _, name := range storageprotection.Names() {
		all = append(all, opening{name, func() error { return i.openStorageProtection(name) }})
	}
	for _, name := range certificates.Names() {
		all = append(all, opening{name, func() error { return i.openCertificates(name) }})
	}
	for _, open := range all {
		if !i.options.runs(open.name) {
			continue
		}
		if err := open.open(); err != nil {
			return fmt.Errorf("%s: %w", open.name, err)
		}
	}
	return nil
}

// add registers a controller, which runs on one of several servers.
func (i *instance) add(name string, c beginner) {
	i.controllers = append(i.controllers, controller{name, c})
}

func (i *instance) openAggregation() error {
	roles, err := i.uncached(rbacv1.Resource("clusterroles"))
	if err != nil {
		return err
	}
	i.aggregation = clusterroles.New(clusterroles.Config{Stored: roles, Access: i.local, Logger: i.env.Logger, Queues: i.env.Metrics.Queues})
	i.add(clusterroles.Name, i.aggregation)
	return nil
}

func (i *instance) openServiceAccounts() error {
	stored, err := i.uncached(corev1.Resource("serviceaccounts"))
	if err != nil {
		return err
	}
	i.accounts = serviceaccounts.New(serviceaccounts.Config{Stored: stored, Access: i.local, Logger: i.env.Logger, Queues: i.env.Metrics.Queues})
	i.add(serviceaccounts.Name, i.accounts)
	return nil
}

// openAccountTokens creates the token controller. Without the serving CA, it is disabled.
func (i *instance) openAccountTokens() error {
	identity := &i.env.Identity
	if identity.ServingCA == nil {
		return nil
	}
	config := accounttokens.Config{
		Sign: identity.TokenKeys.Sign, Bundle: identity.ServingCA, Access: i.local, Logger: i.env.Logger, Queues: i.env.Metrics.Queues,
	}
	err := i.uncachedCore(map[string]*storage.Interface{"secrets": &config.Secrets, "serviceaccounts": &config.Accounts})
	i.add(accounttokens.Name, accounttokens.New(config))
	return err
}

func (i *instance) openRootCA() error {
	if i.env.Identity.ServingCA == nil {
		return nil
	}
	stored, err := i.uncached(corev1.Resource("configmaps"))
	if err != nil {
		return err
	}
	publisher := rootca.New(rootca.Config{Bundle: i.env.Identity.ServingCA, Stored: stored, Access: i.local, Logger: i.env.Logger, Queues: i.env.Metrics.Queues})
	i.add(rootca.Name, publisher)
	return nil
}

func (i *instance) openNamespaces() error {
	emptier := namespace.New(namespace.Config{
		Plain: i.plain(), Prefix: i.keyPrefix(), Resources: i.stored.namespaced, Remote: i.deleteRemote, Access: i.local, Grace: i.options.NamespaceGrace, Logger: i.env.Logger, Queues: i.env.Metrics.Queues,
	})
	i.add(namespace.Name, emptier)
	return nil
}

// plain returns the decryption of values that controllers read without storage; nil without
// encryption.
func (i *instance) plain() changes.Plain {
	if i.env.Transformer == nil {
		return nil
	}
	keys := NewKeys(i.prefix)
	return func(ctx context.Context, key string, value []byte) []byte {
		resource, _ := keys.Resource(key)
		transformer := i.env.Transformer(resource)
		if transformer == nil {
			return value
		}
		plain, _, err := transformer.FromStorage(ctx, value, key)
		if err != nil {
			return value // which reports that it is unreadable
		}
		return plain
	}
}

// keyPrefix returns the prefix of all keys, such as "/registry".
func (i *instance) keyPrefix() string { return "/" + strings.Trim(i.prefix, "/") }

func (i *instance) openGarbageCollector() error {
	collector := garbage.New(garbage.Config{
		Plain: i.plain(), Prefix: i.keyPrefix(), OfPath: i.stored.ofPath, OfKind: i.stored.ofKind, Access: i.local, Logger: i.env.Logger, Queues: i.env.Metrics.Queues,
		KeepUnknown: i.options.KeepUnknownOwners,
	})
	i.add(garbage.Name, collector)
	return nil
}

func (i *instance) openTTLAfterFinished() error {
	jobs, err := i.uncached(batchv1.Resource("jobs"))
	if err != nil {
		return err
	}
	cleaner := ttlafterfinished.New(ttlafterfinished.Config{Stored: jobs, Access: i.local, Logger: i.env.Logger, Queues: i.env.Metrics.Queues})
	i.add(ttlafterfinished.Name, cleaner)
	return nil
}

func (i *instance) openStorageProtection(name string) error {
	protection, err := storageprotection.New(name, storageprotection.Config{Stored: i.uncached, Access: i.local, Logger: i.env.Logger, Queues: i.env.Metrics.Queues})
	if err != nil {
		return err
	}
	i.add(name, protection)
	return nil
}

func (i *instance) openCertificates(name string) error {
	if name == certificates.SigningName && i.env.Identity.Signing == nil {
		return nil
	}
	requests, err := i.uncached(certificatesv1.Resource("certificatesigningrequests"))
	if err != nil {
		return err
	}
	i.add(name, certificates.New(name, certificates.Config{
		Stored: requests, Authorizer: i.authorizer, Authority: i.env.Identity.Signing, Lifetime: i.options.ClusterSigningDuration, Access: i.local, Logger: i.env.Logger, Queues: i.env.Metrics.Queues,
	}))
	return nil
}

// openStorageMigration creates the migration controller, if the API of migrations is served.
func (i *instance) openStorageMigration() error {
	resource := storagemigrationv1.SchemeGroupVersion.WithResource("storageversionmigrations")
	if i.static.Find(resource.GroupVersion(), resource.Resource, "") == nil {
		return nil
	}
	stored, err := i.uncached(resource.GroupResource())
	if err != nil {
		return err
	}
	i.add(storagemigration.Name, storagemigration.New(storagemigration.Config{
		Prefix: i.keyPrefix(), Stored: stored, Find: i.stored.ofResource, Access: i.local, Logger: i.env.Logger, Queues: i.env.Metrics.Queues,
	}))
	return nil
}

func (i *instance) openTokenCleaner() error {
	config, err := i.bootstrapTokens()
	i.add(bootstraptokens.CleanerName, bootstraptokens.NewCleaner(config))
	return err
}

func (i *instance) openBootstrapSigner() error {
	config, err := i.bootstrapTokens()
	i.add(bootstraptokens.SignerName, bootstraptokens.NewSigner(config))
	return err
}

func (i *instance) bootstrapTokens() (bootstraptokens.Config, error) {
	config := bootstraptokens.Config{Access: i.local, Logger: i.env.Logger, Queues: i.env.Metrics.Queues}
	err := i.uncachedCore(map[string]*storage.Interface{"secrets": &config.Secrets, "configmaps": &config.ConfigMaps})
	return config, err
}

func (i *instance) openLegacyTokens() error {
	config := legacytokens.Config{Period: i.options.LegacyTokenCleanUpPeriod, Access: i.local, Logger: i.env.Logger, Queues: i.env.Metrics.Queues}
	err := i.uncachedCore(map[string]*storage.Interface{
		"secrets": &config.Secrets, "serviceaccounts": &config.Accounts, "pods": &config.Pods, "configmaps": &config.ConfigMaps,
	})
	i.add(legacytokens.Name, legacytokens.New(config))
	return err
}

// uncachedCore opens resources of the core group past the watch cache.
func (i *instance) uncachedCore(resources map[string]*storage.Interface) error {
	for resource, to := range resources {
		stored, err := i.uncached(corev1.Resource(resource))
		if err != nil {
			return err
		}
		*to = stored
	}
	return nil
}

// runControllers runs the controllers until ctx ends: immediately if this process is the only user
// of the store, otherwise while it is the elected leader.
func (i *instance) runControllers(ctx context.Context) error {
	if !i.env.Shared {
		i.lead(ctx)
		return nil
	}
	election.New(election.Config{Access: i.local, Stored: i.leases, Identity: i.identity(), Logger: i.env.Logger}).Run(ctx, i.lead)
	return nil
}

// identity names this process among all servers.
func (i *instance) identity() string {
	host, err := os.Hostname()
	if err != nil {
		host = "mainstay"
	}
	return host + "_" + string(uuid.NewUUID())
}

// lead runs the controllers until ctx ends. It restarts them when a kube-controller-manager starts
// or stops.
func (i *instance) lead(ctx context.Context) {
	for beside := false; ctx.Err() == nil; {
		beside = i.term(ctx, beside)
	}
}

// term runs the current set of controllers until the set changes. It returns whether a
// kube-controller-manager is running; was is the previous result.
func (i *instance) term(ctx context.Context, was bool) (beside bool) {
	ctx, end := context.WithCancel(ctx)
	defer end()
	external := &election.External{Name: controllerLease, Holds: i.leaseEnds, Changed: end}
	beside, subscriber := external.Begin(ctx)
	switch {
	case beside:
		i.env.Logger.Info("a kube-controller-manager runs: controllers that --controllers does not name are left to it")
	case was:
		i.env.Logger.Info("the kube-controller-manager is gone: the controllers run here again")
	}
	subscribers := []changes.Subscriber{subscriber}
	for _, c := range i.controllers {
		if beside && !i.options.runsBeside(c.name) {
			continue
		}
		s, wait := c.Begin(ctx)
		defer wait()
		subscribers = append(subscribers, s)
	}
	defer end() // before waiting for the controllers
	changes.New(changes.Config{
		Backend: i.env.Backend, Apart: i.apart(), Plain: i.plain(), Prefix: i.prefix, Stores: i.rows.StoresPath, Logger: i.env.Logger,
	}, subscribers...).Run(ctx)
	return beside
}

// accountPatience is how long a pod waits for the default account that a
// kube-controller-manager is about to create, as in kube-apiserver.
const accountPatience = 1500 * time.Millisecond

// provideAccount sees to it that a namespace has its default account: it is this
// server that creates it, or kube-controller-manager, which is waited for then.
func (i *instance) provideAccount(ctx context.Context, namespace string) {
	if i.accounts != nil {
		_ = i.accounts.Ensure(ctx, namespace) // after an error, admission rejects the pod for that reason
		return
	}
	if !i.controllersRun(ctx) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, accountPatience)
	defer cancel()
	accounts, err := stored[*corev1.ServiceAccount](i, corev1.SchemeGroupVersion, "serviceaccounts").Collection()
	if err != nil {
		return
	}
	w, err := accounts.Watch(ctx, namespace, rest.ListOptions{Fields: fields.OneTermEqualSelector("metadata.name", "default")})
	if err != nil {
		return
	}
	defer w.Close()
	_, _ = w.Next(ctx)
}

// controllerLease is the lease of a running kube-controller-manager.
const controllerLease = "kube-controller-manager"

// controllersRun reports whether a kube-controller-manager runs, as far as its
// lease shows. Where that cannot be read it is taken to run.
func (i *instance) controllersRun(ctx context.Context) bool {
	return time.Now().Before(i.leaseEnds(ctx))
}

// controllerRuns reports whether a controller runs: in this server, or another one with
// the same flags, or in kube-controller-manager.
func (i *instance) controllerRuns(ctx context.Context, name string) bool {
	return i.options.runs(name) || i.controllersRun(ctx)
}

// leaseEnds returns the expiration of the lease of kube-controller-manager, a past time if none
// runs. If the lease is unreadable, it assumes a running one.
func (i *instance) leaseEnds(ctx context.Context) time.Time {
	unknown := time.Now().Add(unreadableLease)
	record, err := i.leases.Get(ctx, types.NamespacedName{Namespace: metav1.NamespaceSystem, Name: controllerLease}, storage.ReadOptions{})
	if errors.Is(err, storage.ErrNotFound) {
		return time.Time{}
	}
	if err != nil {
		return unknown
	}
	lease, err := codec.SharedAs[*coordinationv1.Lease](record)
	if err != nil {
		return unknown
	}
	spec := &lease.Spec
	if spec.HolderIdentity == nil || *spec.HolderIdentity == "" || spec.RenewTime == nil || spec.LeaseDurationSeconds == nil {
		return time.Time{}
	}
	return spec.RenewTime.Add(time.Duration(*spec.LeaseDurationSeconds) * time.Second)
}

// unreadableLease is for how long a lease that cannot be read is taken to hold.
const unreadableLease = 15 * time.Second
