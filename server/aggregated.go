package server

import (
	"context"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"mainstay.dev/mainstay/apis/aggregated"
	"mainstay.dev/mainstay/apis/builtin"
	"mainstay.dev/mainstay/codec"
	"mainstay.dev/mainstay/endpoints/apply"
	"mainstay.dev/mainstay/openapi"
	"mainstay.dev/mainstay/rest"
	"mainstay.dev/mainstay/route"
	"mainstay.dev/mainstay/storage"
	"mainstay.dev/mainstay/storage/follow"
)

// apiServices is where registrations are.
var apiServices = apiregistrationv1.SchemeGroupVersion.WithResource("apiservices")

// manager is whom managed fields name for what this server itself writes.
const manager = "kube-apiserver"

// openAggregated makes the source of what other servers answer for, and loads
// what is registered.
func (s *Server) openAggregated(env *builtin.Env, static *route.Static, documents *openapi.Documents, managers apply.Managers) (*aggregated.Source, error) {
	services := env.Store(apiServices.GroupResource())
	direct, err := storage.New(storage.Config{
		Backend: s.backend, Prefix: s.config.EtcdPrefix, ResourcePrefix: apiregistrationv1.GroupName + "/apiservices", Kind: services.Kind,
		GroupResource: services.Resource, Metrics: s.storageMetrics,
	})
	if err != nil {
		return nil, err
	}
	source, err := aggregated.New(aggregated.Config{
		APIServices: direct, Creater: services, Own: groupVersions(static), Served: s.custom.Serves,
		Account: func(live, obj codec.Object, subresource string) (codec.Object, error) {
			return account(managers, static.Find(apiServices.GroupVersion(), apiServices.Resource, subresource), live, obj)
		},
		Cluster: cluster{static.Find}, Resolver: s.services, Behind: behind(env),
		Certificate: s.frontProxy.certificate, PassRedirects: s.config.PassRedirects, Stopping: s.tunnels,
		Documents: documents, Logger: s.logger, Registerer: s.registry, Following: s.following,
	})
	if err != nil {
		return nil, err
	}
	source.LocalChanged(s.customVersions)
	s.customVersions = nil
	if err := source.Load(context.Background()); err != nil {
		return nil, err
	}
	services.Storage = observed{services.Storage, source.Observe, source.ObserveDeleted}
	return source, nil
}

func groupVersions(source route.Source) []schema.GroupVersion {
	var all []schema.GroupVersion
	for _, group := range source.Groups() {
		for _, version := range group.Versions {
			all = append(all, version.GroupVersion)
		}
	}
	return all
}

// behind are the services and what is behind them.
func behind(env *builtin.Env) map[schema.GroupResource]follow.Collection {
	found := map[schema.GroupResource]follow.Collection{}
	for _, resource := range []schema.GroupResource{
		corev1.Resource("services"), corev1.Resource("endpoints"), discoveryv1.Resource("endpointslices"),
	} {
		if store := env.Store(resource); store != nil {
			found[resource] = store
		}
	}
	return found
}

// account records that this server wrote obj, which becomes the result, in place
// of live.
func account(managers apply.Managers, resource *rest.Resource, live, obj codec.Object) (codec.Object, error) {
	return accountFor(managers, resource, live, obj, manager)
}

// accountFor is account for a part of this server that has a name of its own.
func accountFor(managers apply.Managers, resource *rest.Resource, live, obj codec.Object, manager string) (codec.Object, error) {
	fields, err := managers.For(resource)
	if err != nil || fields == nil {
		return obj, err
	}
	for _, o := range []codec.Object{live, obj} {
		o.GetObjectKind().SetGroupVersionKind(resource.Version.GVK)
	}
	return fields.Update(live, obj, manager), nil
}

// startAggregated lets the source of what other servers answer for follow its
// registrations, keeps published whom they may trust, and keeps up the objects
// that every cluster has, until stopAggregated.
func (s *Server) startAggregated() {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { // ends with stopAggregated
		defer close(done)
		var loops errgroup.Group
		loops.Go(func() error { return s.aggregated.Run(ctx) })
		loops.Go(func() error { s.trust.run(ctx, s.logger); return nil })
		loops.Go(func() error { s.cluster.Run(ctx); return nil })
		if err := s.aggregatedLoop.run(loops.Wait); err != nil {
			s.logger.Error("aggregation stopped following its registrations", "err", err)
		}
	}()
	s.stopAggregated = func() { cancel(); <-done }
}

// localChanged tells the registrations of group versions that are, or are not
// any more, those of custom resources.
func (s *Server) localChanged(versions []schema.GroupVersion) {
	if s.aggregated == nil { // while definitions are loaded
		s.customVersions = append(s.customVersions, versions...)
		return
	}
	s.aggregated.LocalChanged(versions)
}
