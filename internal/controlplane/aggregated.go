package controlplane

import (
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"mainstay.dev/mainstay/internal/apis/aggregated"
	"mainstay.dev/mainstay/internal/apis/builtin"
	"mainstay.dev/mainstay/internal/endpoints/route"
	"mainstay.dev/mainstay/internal/loopback"
	"mainstay.dev/mainstay/internal/storage/reflector"
)

// apiServices is the resource of registrations.
var apiServices = apiregistrationv1.SchemeGroupVersion.WithResource("apiservices")

// manager is the field manager of the server's own writes.
const manager = "kube-apiserver"

// openAggregated creates the source of aggregated group versions.
func (i *instance) openAggregated() error {
	services, err := i.uncached(apiServices.GroupResource())
	if err != nil {
		return err
	}
	i.aggregated, err = aggregated.New(aggregated.Config{
		APIServices: services, Client: loopback.For[*apiregistrationv1.APIService](i.local, apiServices),
		Own: groupVersions(i.served), Served: i.custom.Serves,
		Cluster: i.rows.Connections.Cluster, Resolver: i.services, Endpoints: serviceCollections(i.rows),
		Certificate: i.env.Identity.ProxyCertificate, Dial: i.networks().Cluster, PassRedirects: i.options.PassRedirects, Proxy: i.proxy, Stopping: i.env.Tunnels,
		Documents: i.documents, Logger: i.env.Logger, Metrics: i.env.Metrics.Aggregation, Reflectors: i.env.Metrics.Reflectors,
	})
	return err
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

// serviceCollections returns the stores of services and their endpoints.
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
