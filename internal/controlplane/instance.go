package controlplane

import (
	"context"
	"fmt"
	"net/http"

	"mainstay.dev/mainstay/internal/filters"
	"mainstay.dev/mainstay/internal/filters/authn"
	"mainstay.dev/mainstay/internal/registry/quota"
)

// instance is an open control plane. Its fields, except stop, do not change after newInstance.
type instance struct {
	settings *settings
	// handler serves all requests. They pass through the filters, and then reach the non-resource paths or the
	// API.
	handler http.Handler

	authenticator  authn.Authenticator
	authorization  *authorization
	audit          *filters.AuditConfig // nil if audit is disabled
	resources      *resources
	controllers    *controllerSet
	admission      *admissionPlugins
	clusterAuth    *clusterAuth
	defaultObjects *defaultObjects
	flow           *flowControl
	counts         *objectCounts
	past           *past

	// configuration contains the components that load the objects that configure the server, in loading order.
	// maintenance contains the components whose loops start when the default objects of the cluster exist.
	configuration, maintenance []component
	loops                      *loops
	stop                       context.CancelFunc // ends the loops; set by start
}

// newInstance creates the components of a control plane. A constructor receives the components that
// it uses, so that the compiler checks the order; cycles.go contains the exceptions. newInstance
// performs no I/O except reading the files that the options name.
func newInstance(s *settings) (*instance, error) {
	i := &instance{settings: s, loops: &loops{logger: s.env.Telemetry.Logger.With("prefix", s.prefix)}}
	access, ledger := newLoopbackAccess(), quota.New()
	authorization, err := newAuthorization(s)
	if err != nil {
		return nil, err
	}
	i.authorization = authorization
	tokens := newTokenVerifiers(s, access.Access)
	i.authenticator = newAuthenticator(s, tokens)
	if i.resources, err = newResources(s, access, authorization, tokens, ledger); err != nil {
		return nil, err
	}
	rights, err := authorization.follow(i.resources.builtin)
	if err != nil {
		return nil, err
	}
	i.counts = newObjectCounts(s, i.resources.builtin, i.resources.definitions)
	if i.flow, err = newFlowControl(s, i.resources, i.counts); err != nil {
		return nil, err
	}
	reporter, err := newStorageVersionReporter(s, i.resources)
	if err != nil {
		return nil, err
	}
	if i.controllers, err = newControllers(s, i.resources, authorization.authorizer, ledger, reporter); err != nil {
		return nil, err
	}
	if i.admission, err = newAdmission(s, i.resources, authorization.authorizer, ledger, i.controllers, i.loops); err != nil {
		return nil, err
	}
	api := newAPI(s, i.resources, i.admission.chain, authorization.authorizer, i.controllers)
	audit, err := newAudit(s, api.WriteError)
	if err != nil {
		return nil, err
	}
	i.audit = audit
	access.api.API = newLoopbackWriter(s, api, audit, authorization)
	quotas, err := newQuotas(s, ledger, i.resources.builtin, api, i.controllers)
	if err != nil {
		return nil, err
	}
	if i.clusterAuth, err = newClusterAuth(s, i.resources.access, i.resources.builtin); err != nil {
		return nil, err
	}
	processed := audit != nil || len(i.admission.manifests) > 0
	if i.defaultObjects, err = newDefaultObjects(s, i.resources, i.clusterAuth, i.flow.conditions, i.controllers, reporter, processed); err != nil {
		return nil, err
	}
	health := &healthChecks{settings: s, loops: i.loops, bootstrap: i.defaultObjects.bootstrap, storageVersions: reporter != nil}
	paths, err := newPaths(s, i.resources.catalog, api, i.admission.webhooks, i.flow, health)
	if err != nil {
		return nil, err
	}
	handler := newResourceHandler(s, i.resources, api, paths)
	final := newRootHandler(paths, handler)
	i.past = newPast(s, authorization, tokens, api)
	final = i.past.handler(final)
	i.handler = newFilterChain(s, filterDependencies{
		onError: api.WriteError, audit: audit, authorization: authorization, authenticator: i.authenticator, flow: i.flow,
		resolve: handler.Resolve, storageVersions: reporter,
	}, final)

	i.configuration = []component{
		rights.loading(authorizationObjects),
		i.flow.reflectors.loading(flowControlObjects),
		quotas.loading(quotaObjects),
		{definitionObjects, i.resources.definitions.Load, i.resources.definitions.Run},
		{registrationObjects, i.resources.registrations.Load, nil}, // maintenance contains the loop
		i.admission.manifests.component(),
		i.admission.webhooks.reflectors.loading(admissionWebhookObjects),
		i.admission.policies.reflectors.loading(admissionPolicyObjects),
		followAll(rights, i.flow.reflectors, quotas, i.admission.webhooks.reflectors, i.admission.policies.reflectors,
			reflectors{i.resources.definitions.Reflector(), i.resources.registrations.Reflector(), i.clusterAuth.reflector}),
	}
	if audit != nil && s.env.Telemetry.Audit == nil {
		i.configuration = append(i.configuration, component{auditEvents, nil, audit.Sink.Run})
	}
	i.maintenance = []component{
		{registrationObjects, nil, i.resources.registrations.Run},
		i.controllers.component(),
		{clusterObjects, nil, func(ctx context.Context) error { i.defaultObjects.bootstrap.Run(ctx); return nil }},
	}
	if i.past.history != nil {
		i.maintenance = append(i.maintenance, component{earlierStates, nil, i.past.run})
	}
	if peers := i.resources.peers; peers != nil {
		i.maintenance = append(i.maintenance, component{peerServers, nil, func(ctx context.Context) error { peers.Run(ctx); return nil }})
	}
	return i, nil
}

// start loads the configuration, creates the default objects of the cluster, and starts the loops, which run
// until lifetime ends. If the store does not accept writes, a goroutine creates the objects later. If start
// returns an error, all goroutines that it started have ended.
func (i *instance) start(ctx, lifetime context.Context) error {
	if err := i.defaultObjects.seed(ctx); err != nil {
		return err
	}
	for _, c := range i.configuration {
		if err := c.loadAvailable(ctx); err != nil {
			return fmt.Errorf("load the %s: %w", c.name, err)
		}
	}
	lifetime, i.stop = context.WithCancel(lifetime)
	i.counts.start(lifetime)
	i.clusterAuth.start(lifetime)
	i.loops.start(lifetime, i.configuration...)
	err := i.defaultObjects.create(ctx)
	switch {
	case err == nil:
		i.loops.start(lifetime, i.maintenance...)
	case outOfSpace(err), ctx.Err() == nil && isUnavailable(err):
		i.loops.run(func() {
			if i.defaultObjects.createLater(lifetime, err) == nil {
				i.loops.start(lifetime, i.maintenance...)
			}
		})
	default:
		i.stop()
		i.wait()
		return fmt.Errorf("create the default objects of the cluster: %w", err)
	}
	return nil
}

// wait waits for all goroutines after the lifetime has ended, and closes idle connections to kubelets.
func (i *instance) wait() {
	i.loops.wait()
	i.resources.definitions.Wait()
	i.clusterAuth.queue.Close()
	i.counts.wait()
	i.flow.close()
	i.resources.kubelets.Close()
}
