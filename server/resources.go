package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/admission"
	"mainstay.dev/mainstay/admission/plugin"
	"mainstay.dev/mainstay/apis/builtin"
	"mainstay.dev/mainstay/apis/builtin/all"
	"mainstay.dev/mainstay/codec"
	"mainstay.dev/mainstay/discovery"
	"mainstay.dev/mainstay/egress"
	"mainstay.dev/mainstay/endpoints"
	"mainstay.dev/mainstay/endpoints/apply"
	"mainstay.dev/mainstay/filters"
	"mainstay.dev/mainstay/openapi"
	"mainstay.dev/mainstay/request"
	"mainstay.dev/mainstay/rest"
	"mainstay.dev/mainstay/route"
	"mainstay.dev/mainstay/storage"
	"mainstay.dev/mainstay/storage/cache"
	"mainstay.dev/mainstay/telemetry"
)

// api is what answers for API resources and describes them.
type api struct {
	// Handler answers everything that is not one of the server's own paths.
	Handler http.Handler
	// OnError answers with an error in the media type that is accepted.
	OnError filters.ErrorWriter
	// Known tells what Handler has.
	Known func(*request.Info) bool
	// Paths lists the documents that Handler has.
	Paths func() []string
	// Ready are further checks of /readyz.
	Ready []telemetry.Check

	catalog *route.Catalog
}

// installAPI puts resources on top of s.backend.
func (s *Server) installAPI() (api, error) {
	var errs []error
	env := s.rowEnv(&errs)
	static := route.NewStatic(builtin.Build(env, all.Groups()))
	if err := errors.Join(errs...); err != nil {
		return api{}, err
	}
	s.services = &egress.Services{Cluster: cluster{static.Find}, ToEndpoints: s.config.AggregatorRouting, Self: strings.TrimPrefix(s.url(), "https://")}
	documents := openapi.New(openapi.Config{Version: kubernetesMajor + "." + kubernetesMinor, Issuer: true, Parts: openAPIParts(static)})
	customs, err := s.openCustom(env, static, documents)
	if err != nil {
		return api{}, err
	}
	catalog := route.NewCatalog(static, customs)
	converter := openapi.NewTypeConverter()
	managers := apply.NewManagers(converter)
	if s.aggregated, err = s.openAggregated(env, static, documents, managers); err != nil {
		return api{}, err
	}
	if err := s.openTrust(env, static, managers); err != nil {
		return api{}, err
	}
	answers := endpoints.New(endpoints.Config{
		Admission:       s.admission(catalog),
		TypeConverter:   converter,
		MinWatchTimeout: s.config.MinRequestTimeout,
		OnWatchEvents: func(r *rest.Resource, events, bytes int) {
			s.requests.WatchEvents(r.GVR(), events, bytes)
		},
		Logger: s.logger,
	})
	others := describe(discovery.NewHandler(catalog, s.aggregated), documents.Handler(s.logger))
	return api{
		Handler: &route.Handler{Catalog: catalog, API: answers, Elsewhere: s.aggregated.Handler, Others: others},
		OnError: answers.WriteError,
		Known:   known(catalog),
		Paths:   func() []string { return documentPaths(catalog) },
		catalog: catalog,
	}, nil
}

// rowEnv is what rows need of this server. Storage that cannot be opened is
// added to errs.
func (s *Server) rowEnv(errs *[]error) *builtin.Env {
	return &builtin.Env{
		EventTTL:      s.config.EventTTL,
		Turns:         s.config.Expensive,
		StorageHealth: func(ctx context.Context) error { return s.backend.Health(ctx) },
		Storage: func(spec builtin.StorageSpec) storage.Interface {
			opened, err := s.openResource(spec)
			if err != nil {
				*errs = append(*errs, err)
			}
			return opened
		},
		Authorize:         s.reviewAccess,
		AuthenticateToken: func(context.Context, string, []string) (*request.User, []string, error) { return nil, nil, nil },
		Rules:             s.reviewRules,
	}
}

func (s *Server) openResource(spec builtin.StorageSpec) (storage.Interface, error) {
	return s.openKind(spec.Path, spec.Kind, spec.Namespaced, spec.Resource, spec.IndexFields, true)
}

// openKind opens the storage of a kind, cached where that is wanted and the
// server has a watch cache.
func (s *Server) openKind(path string, kind *codec.Kind, namespaced bool, resource schema.GroupResource, indexFields []string, cached bool) (storage.Interface, error) {
	kind.Memory = s.encodings
	store, err := storage.New(storage.Config{
		Backend: s.backend, Prefix: s.config.EtcdPrefix, ResourcePrefix: path, Kind: kind,
		Namespaced: namespaced, GroupResource: resource, Metrics: s.storageMetrics,
	})
	if err != nil || s.feed == nil || !cached {
		return store, err
	}
	return cache.New(cache.Config{Store: store, Feed: s.feed, IndexFields: indexFields})
}

// admission is the ordered list of plugins.
func (s *Server) admission(catalog *route.Catalog) admission.Chain {
	return admission.Chain{
		plugin.NamespaceLifecycle{Namespaces: namespaces{catalog}},
	}
}

// namespaces finds namespaces for admission.
type namespaces struct{ catalog *route.Catalog }

func (n namespaces) Namespace(ctx context.Context, name string) (*corev1.Namespace, error) {
	getter, ok := n.catalog.Find(corev1.SchemeGroupVersion, "namespaces", "").Storage.(rest.Getter)
	if !ok {
		return nil, errors.New("namespaces cannot be read")
	}
	record, err := getter.Get(ctx, types.NamespacedName{Name: name}, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	obj, err := record.Shared()
	if err != nil {
		return nil, err
	}
	namespace, ok := obj.(*corev1.Namespace)
	if !ok {
		return nil, fmt.Errorf("namespace %s is a %T", name, obj)
	}
	return namespace, nil
}

// describe answers for the documents that say what is served.
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

func known(catalog *route.Catalog) func(*request.Info) bool {
	return func(info *request.Info) bool {
		if !info.IsResource {
			return discovery.Handles(info.Path) || strings.HasPrefix(info.Path, "/openapi/")
		}
		gv := schema.GroupVersion{Group: info.Group, Version: info.Version}
		return catalog.Find(gv, info.Resource, info.Subresource) != nil
	}
}
