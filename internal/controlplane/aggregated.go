package controlplane

import (
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"mainstay.dev/mainstay/internal/apis/aggregated"
	"mainstay.dev/mainstay/internal/apis/builtin"
	"mainstay.dev/mainstay/internal/apis/custom"
	"mainstay.dev/mainstay/internal/endpoints/openapi"
	"mainstay.dev/mainstay/internal/endpoints/route"
	"mainstay.dev/mainstay/internal/loopback"
	"mainstay.dev/mainstay/internal/storage"
	"mainstay.dev/mainstay/internal/storage/reflector"
)

// apiServices is the resource of APIServices, which register the group versions of other servers.
var apiServices = apiregistrationv1.SchemeGroupVersion.WithResource("apiservices")

// manager is the field manager of the server's own writes.
const manager = "kube-apiserver"

// newAggregated creates the source of aggregated group versions.
func newAggregated(s *settings, access *loopback.Access, builtin *builtinResources, conns *connections, documents *openapi.Documents, definitions *custom.Source, versions *versionListeners) (*aggregated.Source, error) {
	stored, err := builtin.uncached(apiServices.GroupResource())
	if err != nil {
		return nil, err
	}
	metrics := s.env.Telemetry.Metrics
	source, err := aggregated.New(aggregated.Config{
		APIServices: stored, Client: loopback.For[*apiregistrationv1.APIService](access, apiServices),
		Own: groupVersions(builtin.served), Served: definitions.Serves,
		Cluster: conns.cluster, Resolver: conns.resolver, Endpoints: func() map[schema.GroupResource]reflector.Collection { return serviceCollections(builtin.rows) },
		Certificate: s.env.Identity.ProxyCertificate, Dial: conns.networks.Cluster, PassRedirects: s.options.Aggregation.PassRedirects,
		Proxy: conns.proxy, Stopping: s.env.Shutdown.Tunnels, Documents: documents,
		Logger: s.env.Telemetry.Logger, Metrics: metrics.Extensions.Aggregation, Reflectors: metrics.Storage.Reflectors,
	})
	if err != nil {
		return nil, err
	}
	versions.add(source.LocalChanged)
	return source, builtin.storage.observers.addWritten(apiServices.GroupResource(), &storage.Observer{
		Written: source.Observe,
		Deleted: func(name types.NamespacedName, revision int64) { source.ObserveDeleted(name.Name, revision) },
	})
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

// serviceCollections returns the stores of services and their endpoints. It omits resources that
// this server does not store.
func serviceCollections(env *builtin.Env) map[schema.GroupResource]reflector.Collection {
	found := map[schema.GroupResource]reflector.Collection{}
	for _, resource := range []schema.GroupResource{
		corev1.Resource("services"), corev1.Resource("endpoints"), discoveryv1.Resource("endpointslices"),
	} {
		if store := env.Store(resource); store != nil {
			found[resource] = store
		}
	}
	return found
}
