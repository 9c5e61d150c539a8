package discovery_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	apidiscovery "k8s.io/api/apidiscovery/v2"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientdiscovery "k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes/scheme"
	clientrest "k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/endpoints/discovery"
	"mainstay.dev/mainstay/internal/endpoints/route"
	"mainstay.dev/mainstay/internal/rest"
)

// Storage types with different sets of verbs. Discovery never calls their methods.
type (
	full struct {
		rest.Getter
		rest.Lister
		rest.Watcher
		rest.Creater
		rest.Updater
		rest.GracefulDeleter
		rest.CollectionDeleter
	}
	part struct {
		rest.Getter
		rest.Updater
	}
)

func version(gvk schema.GroupVersionKind) *codec.Version { return &codec.Version{GVK: gvk} }

func resources() []*rest.Resource {
	core, apps := corev1.SchemeGroupVersion, appsv1.SchemeGroupVersion
	example := schema.GroupVersion{Group: "example.com", Version: "v2"}
	return []*rest.Resource{
		{GroupVersion: core, Name: "pods", Singular: "pod", ShortNames: []string{"po"}, Categories: []string{"all"}, Namespaced: true, Version: version(core.WithKind("Pod")), StorageVersionHash: "xPOwRZ+Yhw8=", Storage: full{}},
		{GroupVersion: core, Name: "pods", Subresource: "status", Namespaced: true, Version: version(core.WithKind("Pod")), Storage: part{}},
		{GroupVersion: core, Name: "nodes", Singular: "node", Version: version(core.WithKind("Node")), Storage: full{}},
		{GroupVersion: apps, Name: "deployments", Singular: "deployment", Namespaced: true, Version: version(apps.WithKind("Deployment")), Storage: full{}},
		{GroupVersion: apps, Name: "deployments", Subresource: "scale", Namespaced: true, Version: version(autoscalingv1.SchemeGroupVersion.WithKind("Scale")), Storage: part{}},
		{GroupVersion: example, Name: "widgets", Singular: "widget", Namespaced: true, Version: version(example.WithKind("Widget")), Storage: full{}},
		{GroupVersion: schema.GroupVersion{Group: "example.com", Version: "v1"}, Name: "widgets", Singular: "widget", Namespaced: true,
			Version: version(schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Widget"}), Storage: full{}},
	}
}

func handler() *discovery.Handler {
	return discovery.NewHandler(route.NewCatalog(route.NewStatic(resources())), nil)
}

func get(h http.Handler, path string, headers ...string) *httptest.ResponseRecorder {
	method := http.MethodGet
	if verb, rest, ok := strings.Cut(path, " "); ok {
		method, path = verb, rest
	}
	r := httptest.NewRequest(method, path, nil)
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

const (
	verbs     = `"create","delete","deletecollection","get","list","patch","update","watch"`
	partVerbs = `"get","patch","update"`
	example   = `"name":"example.com","versions":[{"groupVersion":"example.com/v2","version":"v2"},{"groupVersion":"example.com/v1","version":"v1"}],"preferredVersion":{"groupVersion":"example.com/v2","version":"v2"}`
	apps      = `"name":"apps","versions":[{"groupVersion":"apps/v1","version":"v1"}],"preferredVersion":{"groupVersion":"apps/v1","version":"v1"}`
	noSuch    = `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"the server could not find the requested resource","reason":"NotFound","details":{},"code":404}`
	page      = "404 page not found"
)

func TestUnaggregatedDocuments(t *testing.T) {
	t.Parallel()
	h := handler()
	groups := `{"kind":"APIGroupList","apiVersion":"v1","groups":[{` + apps + `},{` + example + `}]}`
	group := `{"kind":"APIGroup","apiVersion":"v1",` + example + `}`
	pods := `{"kind":"APIResourceList","groupVersion":"v1","resources":[` +
		`{"name":"nodes","singularName":"node","namespaced":false,"kind":"Node","verbs":[` + verbs + `]},` +
		`{"name":"pods","singularName":"pod","namespaced":true,"kind":"Pod","verbs":[` + verbs + `],"shortNames":["po"],"categories":["all"],"storageVersionHash":"xPOwRZ+Yhw8="},` +
		`{"name":"pods/status","singularName":"","namespaced":true,"kind":"Pod","verbs":[` + partVerbs + `]}]}`
	for path, want := range map[string]string{
		"/api":       `{"kind":"APIVersions","versions":["v1"],"serverAddressByClientCIDRs":[{"clientCIDR":"0.0.0.0/0","serverAddress":"example.com"}]}`,
		"/apis":      groups,
		"/apis/":     groups,
		"POST /apis": groups, // kube-apiserver ignores the method, too
		"/api/v1":    pods,
		"/api/v1/":   pods,
		"/apis/apps": `{"kind":"APIGroup","apiVersion":"v1",` + apps + `}`,
		"/apis/apps/v1": `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"apps/v1","resources":[` +
			`{"name":"deployments","singularName":"deployment","namespaced":true,"kind":"Deployment","verbs":[` + verbs + `]},` +
			`{"name":"deployments/scale","singularName":"","namespaced":true,"group":"autoscaling","version":"v1","kind":"Scale","verbs":[` + partVerbs + `]}]}`,
		"/apis/example.com":    group,
		"/apis/example.com/":   group,
		"/apis/apps/v9":        noSuch,
		"/api/v9":              noSuch,
		"/apis/nope":           page,
		"/apis/nope/v1":        page,
		"/apis/apps/v1/x/y":    page,
		"/api/v1/x":            page,
		"/apis//v1":            page,
		"/apis/example.com/v1": `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"example.com/v1","resources":[{"name":"widgets","singularName":"widget","namespaced":true,"kind":"Widget","verbs":[` + verbs + `]}]}`,
	} {
		w := get(h, path)
		code := http.StatusOK
		if want == page || want == noSuch {
			code = http.StatusNotFound
		}
		if diff := cmp.Diff(want+"\n", w.Body.String()); diff != "" || w.Code != code {
			t.Errorf("%s: %d (-want +got):\n%s", path, w.Code, diff)
		}
	}
}

func TestEmptyCatalog(t *testing.T) {
	t.Parallel()
	h := discovery.NewHandler(route.NewCatalog(), nil)
	if got := get(h, "/apis").Body.String(); got != `{"kind":"APIGroupList","apiVersion":"v1","groups":[]}`+"\n" {
		t.Errorf("groups %s", got)
	}
	if got := get(h, "/apis", "Accept", aggregatedV2).Body.String(); !strings.Contains(got, `"items":[]`) {
		t.Errorf("aggregated %s", got)
	}
}

func TestHandles(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]bool{"/api": true, "/apis": true, "/api/": true, "/apis/x": true, "/": false, "/apiserver": false, "/openapi/v3": false, "/version": false} {
		if discovery.Handles(path) != want {
			t.Errorf("Handles(%q) = %v", path, !want)
		}
	}
}

const aggregatedV2 = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"

func TestAggregated(t *testing.T) {
	t.Parallel()
	w := get(handler(), "/apis", "Accept", aggregatedV2)
	if got := w.Header().Get("Content-Type"); got != aggregatedV2 {
		t.Errorf("Content-Type %s", got)
	}
	var list apidiscovery.APIGroupDiscoveryList
	if err := json.Unmarshal(w.Body.Bytes(), &list); err != nil {
		t.Fatal(err)
	}
	all := []string{"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"}
	widgets := apidiscovery.APIResourceDiscovery{Resource: "widgets", ResponseKind: &metav1.GroupVersionKind{Kind: "Widget"}, Scope: apidiscovery.ScopeNamespace, SingularResource: "widget", Verbs: all}
	want := apidiscovery.APIGroupDiscoveryList{
		TypeMeta: metav1.TypeMeta{Kind: "APIGroupDiscoveryList", APIVersion: "apidiscovery.k8s.io/v2"},
		Items: []apidiscovery.APIGroupDiscovery{
			{ObjectMeta: metav1.ObjectMeta{Name: "apps"}, Versions: []apidiscovery.APIVersionDiscovery{{Version: "v1", Freshness: apidiscovery.DiscoveryFreshnessCurrent, Resources: []apidiscovery.APIResourceDiscovery{{
				Resource: "deployments", ResponseKind: &metav1.GroupVersionKind{Kind: "Deployment"}, Scope: apidiscovery.ScopeNamespace, SingularResource: "deployment", Verbs: all,
				Subresources: []apidiscovery.APISubresourceDiscovery{{Subresource: "scale", ResponseKind: &metav1.GroupVersionKind{Group: "autoscaling", Version: "v1", Kind: "Scale"}, Verbs: []string{"get", "patch", "update"}}},
			}}}}},
			{ObjectMeta: metav1.ObjectMeta{Name: "example.com"}, Versions: []apidiscovery.APIVersionDiscovery{
				{Version: "v2", Freshness: apidiscovery.DiscoveryFreshnessCurrent, Resources: []apidiscovery.APIResourceDiscovery{widgets}},
				{Version: "v1", Freshness: apidiscovery.DiscoveryFreshnessCurrent, Resources: []apidiscovery.APIResourceDiscovery{widgets}},
			}},
		},
	}
	if diff := cmp.Diff(want, list); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	core := get(handler(), "/api", "Accept", aggregatedV2).Body.String()
	if !strings.HasPrefix(core, `{"kind":"APIGroupDiscoveryList","apiVersion":"apidiscovery.k8s.io/v2","metadata":{},"items":[{"metadata":{},"versions":[{"version":"v1","resources":[{"resource":"nodes"`) {
		t.Errorf("core: %.200s", core)
	}
}

func TestNegotiation(t *testing.T) {
	t.Parallel()
	const v2beta1 = "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList"
	const refused = "only the following media types are accepted: application/json, application/yaml, application/vnd.kubernetes.protobuf"
	h := handler()
	for _, test := range []struct {
		path, accept, contentType, kind string
	}{
		{"/apis", aggregatedV2, aggregatedV2, "APIGroupDiscoveryList"},
		{"/apis", aggregatedV2 + ";profile=nopeer", aggregatedV2, "APIGroupDiscoveryList"},
		{"/apis", aggregatedV2 + "," + v2beta1 + ",application/json", aggregatedV2, "APIGroupDiscoveryList"},
		{"/apis", "application/yaml;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList", "application/yaml;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList", "APIGroupDiscoveryList"},
		{"/apis", v2beta1 + ",application/json", "application/json", "APIGroupList"},
		{"/apis", "application/json," + aggregatedV2, "application/json", "APIGroupList"},
		{"/apis", v2beta1, "application/json", "Status"},
		{"/apis", "application/json;g=apidiscovery.k8s.io;v=v9;as=APIGroupDiscoveryList", "application/json", "Status"},
		{"/apis/apps", aggregatedV2, "application/json", "Status"},
		{"/apis/apps/v1", "application/json;as=Table;v=v1;g=meta.k8s.io", "application/json", "Status"},
		{"/apis/apps/v1", "application/yaml", "application/yaml", "APIResourceList"},
		{"/apis/apps/v1", "application/vnd.kubernetes.protobuf", "application/vnd.kubernetes.protobuf", ""},
		{"/api", "application/vnd.kubernetes.protobuf", "application/vnd.kubernetes.protobuf", ""},
		{"/api", "text/html", "application/json", "Status"},
	} {
		w := get(h, test.path, "Accept", test.accept)
		if got := w.Header().Get("Content-Type"); got != test.contentType {
			t.Errorf("%s %s: Content-Type %s", test.path, test.accept, got)
		}
		if test.kind == "" {
			if !strings.HasPrefix(w.Body.String(), "k8s\x00") {
				t.Errorf("GET %s, Accept %s: body %q, want Protobuf", test.path, test.accept, w.Body)
			}
			continue
		}
		var got metav1.Status
		if err := yaml.Unmarshal(w.Body.Bytes(), &got); err != nil || got.Kind != test.kind || (w.Code == http.StatusNotAcceptable) != (test.kind == "Status") {
			t.Errorf("%s %s: %d %v in %s", test.path, test.accept, w.Code, err, w.Body)
		}
		if test.kind == "Status" && test.accept != "text/html" && got.Message != refused {
			t.Errorf("GET %s, Accept %s: message %q, want %q", test.path, test.accept, got.Message, refused)
		}
	}
}

func TestProtobufIsReadByClients(t *testing.T) {
	t.Parallel()
	h := handler()
	w := get(h, "/apis/apps/v1", "Accept", "application/vnd.kubernetes.protobuf")
	obj, err := runtime.Decode(scheme.Codecs.UniversalDeserializer(), w.Body.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	if list := obj.(*metav1.APIResourceList); len(list.APIResources) != 2 || list.GroupVersion != "apps/v1" {
		t.Errorf("resource list %+v, want 2 resources of apps/v1", list)
	}
	w = get(h, "/apis", "Accept", "application/vnd.kubernetes.protobuf;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList")
	var envelope runtime.Unknown
	if err := envelope.Unmarshal(w.Body.Bytes()[4:]); err != nil {
		t.Fatal(err)
	}
	var list apidiscovery.APIGroupDiscoveryList
	if err := list.Unmarshal(envelope.Raw); err != nil || len(list.Items) != 2 {
		t.Errorf("decode the aggregated list: error %v, %+v, want 2 groups", err, list)
	}
}

func TestETag(t *testing.T) {
	t.Parallel()
	h := handler()
	first := get(h, "/apis", "Accept", aggregatedV2)
	tag := first.Header().Get("ETag")
	if len(tag) != 130 || !strings.HasPrefix(tag, `"`) || first.Header().Get("Vary") != "Accept" || first.Header().Get("Cache-Control") != "public" {
		t.Errorf("ETag %s, headers %v", tag, first.Header())
	}
	again := get(h, "/apis", "Accept", aggregatedV2, "If-None-Match", tag)
	if again.Code != http.StatusNotModified || again.Body.Len() != 0 || again.Header().Get("ETag") != tag {
		t.Errorf("request with the current ETag: %d %s, want code 304 without a body", again.Code, again.Body)
	}
	if other := get(h, "/apis", "Accept", aggregatedV2, "If-None-Match", `"other"`); other.Code != http.StatusOK {
		t.Errorf("code %d", other.Code)
	}
	if core := get(h, "/api", "Accept", aggregatedV2).Header().Get("ETag"); core == tag {
		t.Error("/api and /apis have the same ETag")
	}
	// Servers with equal catalogs have the same ETag. Servers with different catalogs have different ETags.
	if same := get(handler(), "/apis", "Accept", aggregatedV2).Header().Get("ETag"); same != tag {
		t.Errorf("the document of another server is %s", same)
	}
	fewer := discovery.NewHandler(route.NewCatalog(route.NewStatic(resources()[:4])), nil)
	if changed := get(fewer, "/apis", "Accept", aggregatedV2).Header().Get("ETag"); changed == tag {
		t.Error("a different catalog has the same ETag")
	}
}

// changing is a source with resources that a test replaces.
type changing struct {
	mu         sync.Mutex
	now        *route.Static
	generation uint64
}

func (c *changing) current() *route.Static {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *changing) set(resources []*rest.Resource) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = route.NewStatic(resources)
	c.generation++
}

func (c *changing) Find(gv schema.GroupVersion, name, subresource string) *rest.Resource {
	return c.current().Find(gv, name, subresource)
}
func (c *changing) Groups() []rest.Group                 { return c.current().Groups() }
func (c *changing) Group(name string) (rest.Group, bool) { return c.current().Group(name) }
func (c *changing) Generation() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.generation
}

// TestChanges checks that a change of the catalog changes the documents and their ETags, and that
// the reverse change restores the ETag.
func TestChanges(t *testing.T) {
	t.Parallel()
	source := new(changing)
	source.set(resources()[:4])
	h := discovery.NewHandler(route.NewCatalog(source), nil)
	read := func() (tag string, widgets bool) {
		w := get(h, "/apis", "Accept", aggregatedV2)
		return w.Header().Get("ETag"), strings.Contains(w.Body.String(), "widgets")
	}
	before, _ := read()
	source.set(resources())
	during, widgets := read()
	if during == before || !widgets || get(h, "/apis/example.com").Code != http.StatusOK {
		t.Errorf("the documents do not reflect the change: widgets %v, ETag %s after %s", widgets, during, before)
	}
	source.set(resources()[:4])
	after, widgets := read()
	if after != before || widgets || get(h, "/apis/example.com").Code != http.StatusNotFound {
		t.Errorf("the documents do not reflect the reverse change: widgets %v, ETag %s, before %s", widgets, after, before)
	}
}

// TestConcurrentChanges changes the catalog during requests, for the race detector.
func TestConcurrentChanges(t *testing.T) {
	t.Parallel()
	source := new(changing)
	source.set(resources())
	h := discovery.NewHandler(route.NewCatalog(source), nil)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 50 {
				for _, path := range []string{"/api", "/apis"} {
					if w := get(h, path, "Accept", aggregatedV2); w.Code != http.StatusOK || !json.Valid(w.Body.Bytes()) {
						t.Errorf("GET %s: %d %s, want code 200 with valid JSON", path, w.Code, w.Body)
					}
				}
			}
		})
	}
	wg.Go(func() {
		for i := range 50 {
			source.set(resources()[:4+i%4])
		}
	})
	wg.Wait()
}

func TestConcurrentReaders(t *testing.T) {
	t.Parallel()
	h := handler()
	want := get(handler(), "/apis", "Accept", aggregatedV2).Body.String()
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if got := get(h, "/apis", "Accept", aggregatedV2).Body.String(); got != want {
				t.Errorf("got %s", got)
			}
			get(h, "/api", "Accept", strings.ReplaceAll(aggregatedV2, "json", "yaml"))
			get(h, "/apis/apps/v1")
		})
	}
	wg.Wait()
}

// TestClientGo checks that client-go can parse the documents as it parses those of kube-apiserver.
func TestClientGo(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(handler())
	t.Cleanup(server.Close)
	client, err := clientdiscovery.NewDiscoveryClientForConfig(&clientrest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	for name, asked := range map[string]bool{"aggregated": false, "plain": true} {
		client.UseLegacyDiscovery = asked
		groups, lists, err := client.ServerGroupsAndResources()
		if err != nil {
			t.Fatalf("read the %s discovery: %v", name, err)
		}
		var got []string
		for _, list := range lists {
			for _, r := range list.APIResources {
				got = append(got, list.GroupVersion+" "+r.Name+" "+r.Kind)
			}
		}
		slices.Sort(got) // client-go returns them in map order
		want := []string{"apps/v1 deployments Deployment", "apps/v1 deployments/scale Scale", "example.com/v1 widgets Widget", "example.com/v2 widgets Widget", "v1 nodes Node", "v1 pods Pod", "v1 pods/status Pod"}
		if diff := cmp.Diff(want, got); diff != "" || len(groups) != 3 {
			t.Errorf("%s: %d groups, resources (-want +got):\n%s", name, len(groups), diff)
		}
	}
}

// FuzzAccept checks that no Accept header and no path causes a server error.
func FuzzAccept(f *testing.F) {
	for _, seed := range []string{"", "*/*", aggregatedV2, "application/json;as", ";;,=", "application/json;=;as=APIGroupDiscoveryList;g=apidiscovery.k8s.io;v=v2;q=0"} {
		f.Add("/apis", seed)
		f.Add("/api/v1", seed)
	}
	h := handler()
	f.Fuzz(func(t *testing.T, path, accept string) {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.URL.Path, r.Header["Accept"] = path, []string{accept}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != http.StatusOK && w.Code != http.StatusNotFound && w.Code != http.StatusNotAcceptable {
			t.Errorf("GET %s, Accept %q: %d %s", path, accept, w.Code, w.Body)
		}
	})
}

func BenchmarkAggregated(b *testing.B) {
	h := handler()
	r := httptest.NewRequest(http.MethodGet, "/apis", nil)
	r.Header.Set("Accept", aggregatedV2)
	b.ReportAllocs()
	for b.Loop() {
		h.ServeHTTP(httptest.NewRecorder(), r)
	}
}
