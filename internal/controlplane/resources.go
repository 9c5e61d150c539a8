package controlplane

import (
	"strconv"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"mainstay.dev/mainstay/internal/apis/aggregated"
	"mainstay.dev/mainstay/internal/apis/custom"
	"mainstay.dev/mainstay/internal/apis/peers"
	"mainstay.dev/mainstay/internal/egress/kubelet"
	"mainstay.dev/mainstay/internal/endpoints/openapi"
	"mainstay.dev/mainstay/internal/endpoints/route"
	"mainstay.dev/mainstay/internal/filters/authn"
	"mainstay.dev/mainstay/internal/loopback"
	"mainstay.dev/mainstay/internal/registry/quota"
	"mainstay.dev/mainstay/internal/storage"
)

// resources contains all resources of a control plane, that is, built-in resources, custom
// resources, the resources of aggregated servers, and the resources that only other servers with
// the same store serve.
type resources struct {
	access        *loopback.Access
	finder        *resourceFinder
	builtin       *builtinResources
	definitions   *custom.Source
	catalog       *route.Catalog // built-in and custom resources
	registrations *aggregated.Source
	peers         *peers.Source // nil if requests are not forwarded
	documents     *openapi.Documents
	connections   *connections
	kubelets      *kubelet.Client
	versions      *versionListeners
	history       *historyObjects // nil if there is no history
}

// observedResources returns the built-in resources whose writes must have taken effect by the time
// the writer receives its response, except the resources of authorizers.
func observedResources() []schema.GroupResource {
	all := []schema.GroupResource{
		definitionsResource, apiServices.GroupResource(), quota.Resource(), flowSchemas, priorityLevels,
		mutatingWebhooks.GroupResource(), validatingWebhooks.GroupResource(),
	}
	for _, name := range []string{
		"validatingadmissionpolicies", "validatingadmissionpolicybindings", "mutatingadmissionpolicies", "mutatingadmissionpolicybindings",
	} {
		all = append(all, admissionregistrationv1.Resource(name))
	}
	return all
}

func newResources(s *settings, access *loopbackAccess, authorization *authorization, tokens authn.Tokens, ledger *quota.Ledger) (*resources, error) {
	observers := newObservers(append(observedResources(), authorization.resources()...), []schema.GroupResource{quota.Resource()})
	objects, err := newObjectStorage(s, observers, ledger)
	if err != nil {
		return nil, err
	}
	declared := s.env.Shared.declaredBuiltin(s)
	r := &resources{
		access: access.Access, finder: access.finder, versions: &versionListeners{}, connections: newConnections(s, access.Access),
		documents: openapi.New(openapi.Config{
			Version: kubernetesMajor + "." + strconv.Itoa(s.release.Minor()), Release: s.release, Issuer: true, PathPrefix: s.pathPrefix, Parts: declared.openAPI,
		}),
	}
	rows := newRowEnv(s, rowDependencies{
		storage: objects.open, resources: r.finder, authorization: authorization, tokens: tokens, documents: r.documents,
		proxy: r.connections.nodes, cluster: r.connections.cluster,
	})
	if s.pluginEnabled(namespaceLifecycle) {
		objects.namespaces = func() storage.Interface { return rows.Store(corev1.Resource("namespaces")).Storage }
	}
	r.builtin, r.kubelets = newBuiltinResources(objects, rows, declared), rows.Connections.Kubelets
	if r.definitions, err = newCustomResources(s, r.builtin, r.connections, r.documents, r.versions); err != nil {
		return nil, err
	}
	sources := []route.Source{r.builtin.served}
	if s.hasHistory() {
		r.history = &historyObjects{settings: s, builtin: r.builtin, authorization: authorization, keys: NewKeys(s.prefix)}
		sources = append(sources, newHistory(s, r.history, r.documents))
	}
	r.catalog = route.NewCatalog(append(sources, r.definitions)...)
	r.finder.publish(r.builtin, r.catalog)
	if r.registrations, err = newAggregated(s, r.access, r.builtin, r.connections, r.documents, r.definitions, r.versions); err != nil {
		return nil, err
	}
	if r.peers, err = newPeers(s, r.builtin, r.connections, r.definitions, r.registrations, r.versions); err != nil {
		return nil, err
	}
	return r, nil
}
