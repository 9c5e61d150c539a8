package controlplane

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/apis/builtin"
	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/egress/kubelet"
	"mainstay.dev/mainstay/internal/endpoints"
	"mainstay.dev/mainstay/internal/endpoints/discovery"
	"mainstay.dev/mainstay/internal/endpoints/route"
	"mainstay.dev/mainstay/internal/feature"
	"mainstay.dev/mainstay/internal/registry/quota"
	"mainstay.dev/mainstay/internal/rest"
	"mainstay.dev/mainstay/internal/storage"
)

// installAPI creates the handlers and documents of API resources.
func (i *instance) installAPI() error {
	i.catalog = route.NewCatalog(i.served, i.custom)
	i.api = endpoints.New(endpoints.Config{
		Admission: i.admission(), AdmissionMetrics: i.env.Metrics.Admission,
		Authorizer:      i.authorizer,
		Equivalents:     i.catalog.Equivalents,
		TypeConverter:   i.env.TypeConverter,
		MinWatchTimeout: i.options.MinRequestTimeout,
		OnWatchEvents: func(r *rest.Resource, events, bytes int) {
			i.env.Requests.WatchEvents(r.GVR(), events, bytes)
		},
		OnDeprecated:   i.env.Requests.Deprecated,
		ControllerRuns: i.controllerRuns,
		Memory:         i.env.Memory,
		UnsafeDeletion: i.options.Gates().Enabled(feature.AllowUnsafeMalformedObjectDeletion),
		World:          i.env.World,
		Logger:         i.env.Logger,
	})
	i.local.API = i.api
	handler := &route.Handler{Catalog: i.catalog, API: i.api, Aggregation: i.aggregated, KnownPath: i.isKnownPath}
	documents := discovery.NewHandler(i.catalog, i.aggregated)
	if i.peers != nil {
		handler.Peers, documents.Peers = i.peers.Handler, i.peers
	}
	handler.NonResource = describe(i.api.ReadOnly(documents), i.documents.Handler(i.env.Logger))
	i.resources = handler
	return nil
}

// rowEnv returns the environment of rows.
func (i *instance) rowEnv() *builtin.Env {
	enablement, _ := i.options.enablement() // has been checked
	env := &builtin.Env{
		Enablement:        enablement,
		Gates:             i.options.Gates(),
		DenyPrivileged:    i.options.DenyPrivileged,
		EventTTL:          i.options.EventTTL,
		ValidationLimiter: i.env.Limiter,
		Storage: builtin.StorageEnv{
			Open:   i.openRow,
			Shared: i.env.Shared,
			Health: func(ctx context.Context) error { return i.env.Backend.Health(ctx) },
		},
		Services: builtin.ServiceNetwork{Ranges: i.options.ServiceClusterIPRange, NodePorts: i.options.ServiceNodePortRange},
		Auth: builtin.Auth{
			Authorizer:        i.authorizer,
			ResourceFor:       i.nameOf,
			UserRules:         i.reviewRules,
			AuthenticateToken: i.authenticateToken,
			Tokens:            i.issuer(),
		},
		ServesVersion: func(gv schema.GroupVersion) bool { return slices.Contains(groupVersions(i.served), gv) },
	}
	env.Connections.Kubelets = kubelet.New(kubelet.Config{
		AddressTypes: i.options.KubeletPreferredAddressTypes, Port: i.options.KubeletPort, Timeout: i.options.KubeletTimeout,
		Certificate: i.env.Identity.KubeletCertificate, Authorities: i.env.Identity.KubeletAuthorities,
		Gates: env.Gates, Proxy: i.proxy, Dial: i.env.Networks.Cluster,
	})
	if i.rbac != nil {
		env.Auth.Roles = i.rbac
	}
	if i.options.runs(policyStatus) {
		env.Types = &typeResolver{instance: i}
	}
	return env
}

// openRow opens the storage of a row. Observers process writes of definitions, registrations,
// quotas, flow schemas, priority levels and authorization objects, so that a write is in effect
// when it returns.
func (i *instance) openRow(spec storage.Spec) (storage.Interface, error) {
	switch spec.Resource {
	case definitionsResource:
		spec.Observer = &storage.Observer{Written: func(record *codec.Record) error {
			if err := i.custom.Observe(record); err != nil {
				return fmt.Errorf("load the definition: %w", err)
			}
			return nil
		}}
	case apiServices.GroupResource():
		spec.Observer = &storage.Observer{
			Written: func(record *codec.Record) error { return i.aggregated.Observe(record) },
			Deleted: func(name types.NamespacedName, revision int64) { i.aggregated.ObserveDeleted(name.Name, revision) },
		}
	case quota.Resource():
		spec.Observer = i.quotas.Observer()
	}
	for _, observer := range []*storage.Observer{
		i.rightsObserver(spec.Resource), i.flowObserver(spec.Resource), i.observeWebhooks(spec.Resource), i.observePolicies(spec.Resource),
	} {
		spec.Observer = spec.Observer.And(observer)
	}
	return i.openNamespaced(spec)
}

// describe serves the discovery and OpenAPI documents.
func describe(resources, openAPI http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case discovery.Handles(r.URL.Path):
			resources.ServeHTTP(w, r)
		case strings.HasPrefix(r.URL.Path, "/openapi/"):
			openAPI.ServeHTTP(w, r)
		default:
			http.NotFound(w, r)
		}
	})
}

// documentPaths are the paths of discovery and OpenAPI.
func documentPaths(catalog *route.Catalog) []string {
	list := []string{"/api", "/apis", "/apis/", "/openapi/v2", "/openapi/v3", "/openapi/v3/"}
	for _, group := range catalog.Groups() {
		if group.Name != "" {
			list = append(list, "/apis/"+group.Name)
		}
		for _, version := range group.Versions {
			if group.Name == "" {
				list = append(list, "/api/"+version.GroupVersion.Version)
				continue
			}
			list = append(list, "/apis/"+version.GroupVersion.String())
		}
	}
	return list
}
