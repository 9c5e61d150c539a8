package discovery

import (
	"bytes"
	"crypto/sha512"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"

	apidiscovery "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/endpoints"
	"mainstay.dev/mainstay/internal/endpoints/route"
)

// Handler serves /api, /apis and the paths of groups and versions below them. It caches aggregated
// documents until the catalog or the registry changes. It is safe for concurrent use.
type Handler struct {
	// Peers are the other servers of the cluster. The aggregated document of /apis includes their
	// groups unless a client requests the profile "nopeer". Peers may be nil, and must be set
	// before the first request.
	Peers Peers
	// ServerAddress is the host:port of the server in the document of /api; "" selects the local
	// address of the connection. It must be set before the first request.
	ServerAddress string

	catalog  *route.Catalog
	registry Registry
	core     cachedDocument
	grouped  cachedDocument
	merged   cachedDocument
}

// cachedDocument caches the document of one generation.
type cachedDocument struct {
	mu         sync.Mutex
	generation uint64
	document   *document
}

// forGeneration returns the document of a generation. If the cached document has a different generation,
// forGeneration first replaces it with an empty one.
func (k *cachedDocument) forGeneration(generation uint64) *document {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.document == nil || k.generation != generation {
		k.document, k.generation = new(document), generation
	}
	return k.document
}

// document is an aggregated document, encoded in the media types requested so far.
type document struct {
	once   sync.Once
	list   *apidiscovery.APIGroupDiscoveryList
	etag   string
	err    error
	bodies sync.Map // codec.Media -> []byte
}

// NewHandler returns a handler for the resources of a catalog and the aggregated servers of a
// registry. A nil registry means that there are no aggregated servers, and that groups have the
// order of the catalog.
func NewHandler(catalog *route.Catalog, registry Registry) *Handler {
	return &Handler{catalog: catalog, registry: registry}
}

// Handles reports whether a path may be a discovery path, that is, whether it is /api, /apis or below them.
// The Handler responds with 404 to unknown paths.
func Handles(path string) bool {
	path = strings.TrimSuffix(path, "/")
	return path == "/api" || path == "/apis" || strings.HasPrefix(path, "/api/") || strings.HasPrefix(path, "/apis/")
}

func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	switch {
	case len(parts) == 1:
		h.serveRoot(w, r, parts[0] == "api")
	case parts[0] == "api" && len(parts) == 2:
		h.serveVersion(w, r, schema.GroupVersion{Version: parts[1]})
	case len(parts) == 2:
		h.serveGroup(w, r, parts[1])
	case len(parts) == 3 && parts[1] != "": // the core group exists below /api only
		h.serveVersion(w, r, schema.GroupVersion{Group: parts[1], Version: parts[2]})
	default:
		http.NotFound(w, r)
	}
}

// serveRoot serves /api and /apis, as aggregated or unaggregated discovery.
func (h *Handler) serveRoot(w http.ResponseWriter, r *http.Request, core bool) {
	if media, own, ok := requestsAggregated(r); ok {
		// Generations are read first, so that a change while a document is built
		// invalidates it.
		switch {
		case core:
			h.serveAggregated(w, r, h.core.forGeneration(h.generation()), media, func() []apidiscovery.APIGroupDiscovery { return h.aggregated(true) })
		case h.Peers == nil || own:
			h.serveAggregated(w, r, h.grouped.forGeneration(h.generation()), media, func() []apidiscovery.APIGroupDiscovery { return h.aggregated(false) })
		default:
			h.serveAggregated(w, r, h.merged.forGeneration(h.generation()+h.Peers.Generation()), media, func() []apidiscovery.APIGroupDiscovery {
				return merge(h.aggregated(false), h.Peers.Groups())
			})
		}
		return
	}
	if core {
		h.serveCoreVersions(w, r)
		return
	}
	list := &metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}, Groups: []metav1.APIGroup{}}
	for _, g := range h.groups() {
		if g.name != "" {
			list.Groups = append(list.Groups, apiGroup(g))
		}
	}
	endpoints.WriteObject(w, r, list)
}

func (h *Handler) serveCoreVersions(w http.ResponseWriter, r *http.Request) {
	versions := &metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions"}, ServerAddressByClientCIDRs: h.serverAddress(r)}
	for _, g := range h.groups() {
		if g.name == "" {
			for _, v := range g.versions {
				versions.Versions = append(versions.Versions, v.GroupVersion.Version)
			}
		}
	}
	endpoints.WriteObject(w, r, versions)
}

func (h *Handler) serveGroup(w http.ResponseWriter, r *http.Request, name string) {
	g, found := h.group(name)
	if !found || name == "" {
		http.NotFound(w, r)
		return
	}
	group := apiGroup(g)
	group.TypeMeta = metav1.TypeMeta{Kind: "APIGroup", APIVersion: "v1"}
	endpoints.WriteObject(w, r, &group)
}

func (h *Handler) serveVersion(w http.ResponseWriter, r *http.Request, gv schema.GroupVersion) {
	g, _ := h.catalog.Group(gv.Group)
	for _, v := range g.Versions {
		if v.GroupVersion == gv {
			list := resourceList(v)
			list.TypeMeta = metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}
			if gv.Group == "" {
				list.APIVersion = "" // as in kube-apiserver for the core group
			}
			endpoints.WriteObject(w, r, list)
			return
		}
	}
	if h.catalog.HasStaticGroup(gv.Group) {
		endpoints.WriteStatus(w, r, endpoints.NotFoundStatus())
		return
	}
	http.NotFound(w, r)
}

// aggregatedType is the Content-Type of an aggregated document.
func aggregatedType(media codec.Media) string {
	return media.String() + ";g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
}

// requestsAggregated reports whether the Accept header prefers aggregated discovery, and in which media
// type. own reports whether the client requests only the resources of this server (profile nopeer). The
// first supported clause of the header applies.
func requestsAggregated(r *http.Request) (media codec.Media, own, ok bool) {
	for part := range strings.SplitSeq(strings.Join(r.Header.Values("Accept"), ","), ",") {
		fields := strings.Split(part, ";")
		params := map[string]string{}
		for _, f := range fields[1:] {
			k, v, _ := strings.Cut(strings.TrimSpace(f), "=")
			params[k] = v
		}
		in, known := map[string]codec.Media{codec.JSONType: codec.JSON, codec.YAMLType: codec.YAML, codec.ProtobufType: codec.Protobuf}[strings.TrimSpace(fields[0])]
		if !known {
			continue
		}
		if params["as"] == "" {
			return 0, false, false
		}
		if params["as"] == "APIGroupDiscoveryList" && params["g"] == apidiscovery.GroupName && params["v"] == "v2" {
			return in, params["profile"] == "nopeer", true
		}
	}
	return 0, false, false
}

func (h *Handler) serveAggregated(w http.ResponseWriter, r *http.Request, doc *document, media codec.Media, groups func() []apidiscovery.APIGroupDiscovery) {
	doc.once.Do(func() { doc.build(groups()) })
	if doc.err != nil {
		endpoints.WriteStatus(w, r, endpoints.StatusOf(doc.err))
		return
	}
	w.Header().Set("ETag", doc.etag)
	w.Header().Set("Cache-Control", "public") // clients revalidate with the ETag
	w.Header().Set("Vary", "Accept")
	if r.Header.Get("If-None-Match") == doc.etag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	body, err := doc.body(media)
	if err != nil {
		endpoints.WriteStatus(w, r, endpoints.StatusOf(err))
		return
	}
	w.Header().Set("Content-Type", aggregatedType(media))
	endpoints.WriteBytes(w, r, body)
}

// aggregated returns the aggregated discovery of the core group, or of all other groups.
func (h *Handler) aggregated(core bool) []apidiscovery.APIGroupDiscovery {
	return aggregated(slices.DeleteFunc(h.groups(), func(g group) bool { return (g.name == "") != core }))
}

func (d *document) build(groups []apidiscovery.APIGroupDiscovery) {
	d.list = &apidiscovery.APIGroupDiscoveryList{Items: groups}
	d.list.SetGroupVersionKind(apidiscovery.SchemeGroupVersion.WithKind("APIGroupDiscoveryList"))
	body, err := d.body(codec.JSON)
	if err != nil {
		d.err = fmt.Errorf("aggregate discovery: %w", err)
		return
	}
	d.etag = fmt.Sprintf(`"%X"`, sha512.Sum512(bytes.TrimSpace(body)))
}

func (d *document) body(media codec.Media) ([]byte, error) {
	if body, ok := d.bodies.Load(media); ok {
		return body.([]byte), nil
	}
	body, err := codec.AppendObject(nil, runtime.Object(d.list), media)
	if err != nil {
		return nil, err
	}
	d.bodies.Store(media, body)
	return body, nil
}
