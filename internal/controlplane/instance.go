package controlplane

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"

	coordinationv1 "k8s.io/api/coordination/v1"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"mainstay.dev/mainstay/internal/apis/aggregated"
	"mainstay.dev/mainstay/internal/apis/bootstrap"
	"mainstay.dev/mainstay/internal/apis/builtin"
	"mainstay.dev/mainstay/internal/apis/builtin/all"
	"mainstay.dev/mainstay/internal/apis/custom"
	"mainstay.dev/mainstay/internal/apis/peers"
	"mainstay.dev/mainstay/internal/authorizer"
	"mainstay.dev/mainstay/internal/controllers/clusterroles"
	"mainstay.dev/mainstay/internal/controllers/flowschemas"
	"mainstay.dev/mainstay/internal/controllers/resourcequotas"
	"mainstay.dev/mainstay/internal/controllers/serviceaccounts"
	"mainstay.dev/mainstay/internal/controllers/storageversions"
	"mainstay.dev/mainstay/internal/egress"
	"mainstay.dev/mainstay/internal/egress/proxy"
	"mainstay.dev/mainstay/internal/endpoints"
	"mainstay.dev/mainstay/internal/endpoints/openapi"
	"mainstay.dev/mainstay/internal/endpoints/route"
	"mainstay.dev/mainstay/internal/filters"
	"mainstay.dev/mainstay/internal/filters/authn"
	"mainstay.dev/mainstay/internal/filters/authz"
	"mainstay.dev/mainstay/internal/filters/authz/node"
	"mainstay.dev/mainstay/internal/filters/authz/rbac"
	"mainstay.dev/mainstay/internal/filters/flowcontrol"
	"mainstay.dev/mainstay/internal/loopback"
	"mainstay.dev/mainstay/internal/registry/quota"
	"mainstay.dev/mainstay/internal/rest"
	"mainstay.dev/mainstay/internal/storage"
	"mainstay.dev/mainstay/internal/storage/factory"
	"mainstay.dev/mainstay/internal/storage/reflector"
)

// instance is an open control plane. Fields set by newInstance do not change.
type instance struct {
	env      *Env
	prefix   string
	options  Options
	lifetime context.Context // of the control plane

	authorizer authorizer.Authorizer
	modes      *[]authz.Listed        // by flag
	node       *node.Authorizer       // part of it; nil: other modes decide
	rbac       *rbac.Authorizer       // as node
	rights     []*reflector.Reflector // keep them up to date
	tokens     authn.Tokens
	audit      *filters.AuditConfig // nil disables audit
	flow       *flowcontrol.Control // nil: --enable-priority-and-fairness=false
	// flowReflectors keep it up to date.
	flowReflectors []*reflector.Reflector
	// local is how code inside this control plane reads and writes objects.
	local *loopback.Access

	factory     *factory.Factory
	rows        *builtin.Env
	static      *route.Static  // built-in resources
	served      *route.Static  // those visible to clients
	catalog     *route.Catalog // all of this control plane's own
	services    egress.Resolver
	proxy       *proxy.Proxy
	documents   *openapi.Documents
	webhooks    *admissionWebhooks
	manifests   []*manifests // of admission
	policies    *admissionPolicies
	custom      *custom.Source
	aggregated  *aggregated.Source
	peers       *peers.Source // nil without other servers
	clusterAuth *clusterAuth
	cluster     *bootstrap.Bootstrap        // the objects that every cluster has
	aggregation *clusterroles.Aggregation   // nil where it does not run
	accounts    *serviceaccounts.Controller // nil where it does not run
	controllers []controller                // those that run on one of several servers
	// storageVersions reports the storage versions of resources; nil if disabled.
	storageVersions *storageversions.Reporter
	stored          *storedResources
	conditions      *flowschemas.Conditions
	// quotas is the ledger of quota charges; quotaCounts is nil if the controller is disabled.
	quotas         *quota.Ledger
	quotaReflector *reflector.Reflector
	quotaCounts    *resourcequotas.Controller
	leases         storage.Interface // uncached
	counts         *objectCounts     // for metrics; nil: --etcd-count-metric-poll-period=0
	api            *endpoints.API
	paths          *paths
	checkPaths     []string // of single health checks
	// resources resolves requests and dispatches API requests.
	resources *route.Handler
	// handler handles all requests, with the filters.
	handler http.Handler

	// stop ends the goroutines that start began; running waits for them.
	stop                                                                                    context.CancelFunc
	running                                                                                 errgroup.Group
	rightsLoop, flowLoop, policiesLoop, webhooksLoop, quotaLoop, customLoop, aggregatedLoop loop
}

// newInstance builds a control plane, from the store up. It does no I/O but on the
// files that options name.
func newInstance(c *ControlPlane) (*instance, error) {
	i := &instance{
		env: c.env, prefix: c.prefix, options: c.options, lifetime: c.lifetime, paths: newPaths(), quotas: quota.New(),
	}
	for _, step := range []func() error{
		i.openAuthorization, i.openFlowControl, i.openFactory, i.buildRows, i.openQuotas, i.openTokens, i.openRights,
		i.openFlowReflectors, i.openPolicies, i.openWebhooks, i.openCustom, i.openAggregated, i.openPeers, i.openClusterAuth,
		i.installAPI, i.openAudit, i.openStorageVersions, i.openBootstrap, i.openControllers, i.installPaths,
	} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	i.handler = i.chain(http.HandlerFunc(i.serveFiltered))
	return i, nil
}

func (i *instance) openFactory() error {
	var err error
	i.factory, err = factory.New(factory.Config{
		Backend: i.env.Backend, Prefix: i.prefix, Feed: i.env.Feed, Overrides: overridden(i.env.Overrides), Transformer: i.env.Transformer, Encodings: i.env.Encodings, Metrics: i.env.Metrics.Storage,
	})
	return err
}

func (i *instance) buildRows() error {
	i.proxy = &proxy.Proxy{Stopping: i.env.Tunnels, Logger: i.env.Logger}
	i.rows = i.rowEnv()
	resources, err := builtin.Build(i.rows, all.Groups())
	if err != nil {
		return fmt.Errorf("open the storage of built-in resources: %w", err)
	}
	i.static = route.NewStatic(resources)
	i.served = i.static
	if served := i.rows.Enablement; !served.All() {
		i.served = route.NewStatic(slices.DeleteFunc(slices.Clone(resources), func(r *rest.Resource) bool { return !served.Serves(r.GVR()) }))
	}
	i.local = &loopback.Access{Find: i.find, Manager: manager}
	i.rows.Connections.Cluster = newCluster(i.local)
	i.services = &egress.Services{Cluster: i.rows.Connections.Cluster, ToEndpoints: i.options.AggregatorRouting, Self: i.env.Address}
	i.documents = openapi.New(openapi.Config{Version: kubernetesMajor + "." + kubernetesMinor, Issuer: true, Parts: openAPIParts(i.served)})
	i.leases, err = i.uncached(coordinationv1.Resource("leases"))
	return err
}

// find returns a resource, including resources that are not served, or nil.
func (i *instance) find(gv schema.GroupVersion, resource, subresource string) *rest.Resource {
	if own := i.static.Find(gv, resource, subresource); own != nil {
		return own
	}
	return i.catalog.Find(gv, resource, subresource)
}

// start loads definitions and registrations, creates the objects of every cluster,
// and runs the loops of the instance until lifetime ends. If it returns an error,
// all goroutines that it began have ended.
func (i *instance) start(ctx, lifetime context.Context) error {
	if err := i.seed(ctx); err != nil {
		return err
	}
	if err := i.loadRights(ctx); err != nil {
		return fmt.Errorf("load the RBAC objects: %w", err)
	}
	if err := i.loadFlowControl(ctx); err != nil {
		return fmt.Errorf("load the flow schemas and priority levels: %w", err)
	}
	if err := i.quotaReflector.Load(ctx); err != nil {
		return fmt.Errorf("load the quotas: %w", err)
	}
	if err := i.custom.Load(ctx); err != nil {
		return fmt.Errorf("load the CustomResourceDefinitions: %w", err)
	}
	if err := i.aggregated.Load(ctx); err != nil {
		return fmt.Errorf("load the APIServices: %w", err)
	}
	if err := i.loadManifests(); err != nil {
		return err
	}
	if err := i.webhooks.follow.load(ctx); err != nil {
		return fmt.Errorf("load the configurations of admission webhooks: %w", err)
	}
	if err := i.policies.follow.load(ctx); err != nil {
		return fmt.Errorf("load the admission policies: %w", err)
	}
	lifetime, i.stop = context.WithCancel(lifetime)
	i.counts = i.env.Metrics.Objects.count(lifetime, i)
	if len(i.rights) > 0 {
		i.run(lifetime, "rights", &i.rightsLoop, i.followRights)
	}
	i.runFlowControl(lifetime)
	if i.audit != nil {
		i.run(lifetime, "audit events", new(loop), i.audit.Sink.Run)
	}
	i.run(lifetime, "admission webhooks", &i.webhooksLoop, i.webhooks.follow.run)
	if len(i.manifests) > 0 {
		i.run(lifetime, "manifests of admission", &i.webhooksLoop, i.keepUpWithManifests)
	}
	i.run(lifetime, "admission policies", &i.policiesLoop, i.policies.follow.run)
	i.run(lifetime, "CustomResourceDefinitions", &i.customLoop, i.custom.Run)
	i.run(lifetime, "quotas", &i.quotaLoop, func(ctx context.Context) error { i.quotaReflector.Run(ctx); return nil })
	keepUp := func() {
		i.run(lifetime, "APIServices", &i.aggregatedLoop, i.aggregated.Run)
		if i.peers != nil {
			i.run(lifetime, "other servers", &i.aggregatedLoop, func(ctx context.Context) error { i.peers.Run(ctx); return nil })
		}
		i.run(lifetime, "cluster authentication", &i.aggregatedLoop, i.clusterAuth.run)
		if len(i.controllers) > 0 {
			i.run(lifetime, "controllers", new(loop), i.runControllers)
		}
		i.run(lifetime, "objects of every cluster", &i.aggregatedLoop, func(ctx context.Context) error { i.cluster.Run(ctx); return nil })
	}
	err := i.bootstrap(ctx)
	switch {
	case err == nil:
		keepUp()
	case lacksSpace(err):
		i.run(lifetime, "default objects of the cluster", new(loop), func(ctx context.Context) error { return i.bootstrapLater(ctx, err, keepUp) })
	default:
		i.stop()
		return errors.Join(fmt.Errorf("create the default objects of the cluster: %w", err), i.running.Wait())
	}
	return nil
}

// run runs a loop until ctx ends. health reports whether it still runs.
func (i *instance) run(ctx context.Context, what string, health *loop, f func(context.Context) error) {
	i.running.Go(func() error {
		if err := health.run(func() error { return f(ctx) }); err != nil {
			i.env.Logger.Error("a control plane does not keep up any more", "prefix", i.prefix, "with", what, "err", err)
		}
		return nil
	})
}

// wait waits for all goroutines that start began.
func (i *instance) wait() {
	_ = i.running.Wait()
	i.counts.wait()
	if i.flow != nil {
		i.flow.Close()
	}
}

// serveFiltered is the handler behind the filters: non-resource paths, or else the
// API.
func (i *instance) serveFiltered(w http.ResponseWriter, r *http.Request) {
	i.handlerOf(r.URL.Path).ServeHTTP(w, r)
}

func (i *instance) handlerOf(path string) http.Handler {
	if own := i.paths.find(path); own != nil {
		return own
	}
	return i.resources
}
