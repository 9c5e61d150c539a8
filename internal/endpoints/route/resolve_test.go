package route_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/endpoints"
	"mainstay.dev/mainstay/internal/endpoints/route"
	"mainstay.dev/mainstay/internal/request"
	"mainstay.dev/mainstay/internal/rest"
)

// stream is a Connecter whose requests are long-running or short.
type stream struct{ longRunning bool }

func (stream) ConnectOptions(url.Values, string) (runtime.Object, error) { return nil, nil }
func (stream) Connect(context.Context, types.NamespacedName, runtime.Object, rest.ErrorWriter) (http.Handler, error) {
	return http.NotFoundHandler(), nil
}
func (s stream) Connection() rest.Connection {
	return rest.Connection{Methods: []string{http.MethodGet}, AllowsPath: true, LongRunning: s.longRunning}
}

// aggregation assigns a set of group versions to one handler.
type aggregation struct {
	handler    http.Handler
	versions   map[schema.GroupVersion]bool
	generation uint64
}

func (a *aggregation) Handler(gv schema.GroupVersion) http.Handler {
	if a.versions[gv] {
		return a.handler
	}
	return nil
}

func (a *aggregation) Generation() uint64 { return a.generation }

func text(text string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, text) })
}

// parsed returns a GET request with its Info in the context, and the Info.
func parsed(t *testing.T, path string) (*http.Request, *request.Info) {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, path, nil)
	info, err := request.Parse(r)
	if err != nil {
		t.Fatal(err)
	}
	return r.WithContext(request.NewContext(r.Context(), &info, time.Now())), &info
}

// TestResolve checks the properties of a route that filters use.
func TestResolve(t *testing.T) {
	t.Parallel()
	with := func(name string, storage rest.Storage) *rest.Resource {
		r := res(name)
		r.Storage = storage
		return r
	}
	h := &route.Handler{
		Catalog: route.NewCatalog(route.NewStatic([]*rest.Resource{
			res("v1 pods"), with("v1 pods/stream", stream{true}), with("v1 pods/log", stream{false}), res("v1 pods/exec"), res("v1 pods/status"),
			res("metrics/v1 nodes"),
		})),
		Aggregation: &aggregation{handler: text("aggregated"), versions: map[schema.GroupVersion]bool{{Group: "metrics", Version: "v1"}: true}},
		KnownPath:   func(path string) bool { return path == "/metrics" },
	}
	const known, longRunning, resource = "known", "long-running", "resource"
	for path, want := range map[string]string{
		"/api/v1/pods":                           known + " " + resource,
		"/api/v1/pods?watch=1":                   known + " " + longRunning + " " + resource,
		"/api/v1/watch/namespaces/a/pods/x":      known + " " + longRunning + " " + resource,
		"/api/v1/namespaces/a/pods/x/stream":     known + " " + longRunning + " " + resource,
		"/api/v1/namespaces/a/pods/x/stream/y/z": known + " " + longRunning + " " + resource,
		"/api/v1/namespaces/a/pods/x/log":        known + " " + resource,
		"/api/v1/namespaces/a/pods/x/exec":       known + " " + resource,
		"/api/v1/namespaces/a/pods/x/status":     known + " " + resource,
		"/api/v1/namespaces/a/pods/x/attach":     "",
		"/api/v1/nope":                           "",
		"/api/v1/nope?watch=1":                   longRunning,
		"/apis/metrics/v1":                       "",
		"/apis/metrics/v1/nodes":                 "",
		"/apis/metrics/v1/nodes/n/proxy":         longRunning,
		"/debug/pprof/profile":                   longRunning,
		"/metrics":                               known,
		"/nope":                                  "",
	} {
		r, info := parsed(t, path)
		resolved := h.Resolve(info)
		request.SetRoute(r.Context(), resolved)
		var got []string
		if resolved.Known() {
			got = append(got, known)
		}
		if resolved.LongRunning() {
			got = append(got, longRunning)
		}
		if from := route.From(r.Context()); from != resolved {
			t.Errorf("%s: From returns %v", path, from)
		} else if from.Resource != nil {
			got = append(got, resource)
		}
		if got := strings.Join(got, " "); got != want {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
	if route.From(t.Context()) != nil {
		t.Error("From returned a route for a context that is not of a request")
	}
}

// counted counts the lookups of a source.
type counted struct {
	changing
	lookups int
}

func (c *counted) Find(gv schema.GroupVersion, name, subresource string) *rest.Resource {
	c.lookups++
	return c.changing.Find(gv, name, subresource)
}

// TestResolvedOnce checks that a resource is looked up only once between the resolution and the dispatch of
// a request, and again if the resources have changed in between.
func TestResolvedOnce(t *testing.T) {
	t.Parallel()
	source := &counted{changing: changing{Source: source("v1 pods")}}
	remote := &aggregation{handler: text("aggregated")}
	h := &route.Handler{
		Catalog: route.NewCatalog(source), API: endpoints.New(endpoints.Config{}), Aggregation: remote, NonResource: text("other"),
	}
	for _, step := range []struct {
		name   string
		change func()
		// want is part of the response. lookups is the number of lookups in the source.
		want    string
		lookups int
	}{
		{"unchanged", func() {}, "MethodNotAllowed", 1},
		{"resource removed", func() { source.Source, source.generation = route.NewStatic(nil), 1 }, "NotFound", 2},
		{"still removed", func() {}, "NotFound", 1},
		{"resource added", func() { source.Source, source.generation = route.NewStatic([]*rest.Resource{res("v1 pods")}), 2 }, "MethodNotAllowed", 2},
		{"assigned to another server", func() {
			remote.versions, remote.generation = map[schema.GroupVersion]bool{{Version: "v1"}: true}, 1
		}, "aggregated", 1},
		{"taken back", func() { remote.versions, remote.generation = nil, 2 }, "MethodNotAllowed", 1},
	} {
		source.lookups = 0
		r, info := parsed(t, "/api/v1/pods")
		request.SetRoute(r.Context(), h.Resolve(info))
		step.change()
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if got := w.Body.String(); !strings.Contains(got, step.want) || source.lookups != step.lookups {
			t.Errorf("%s: %d lookups and %s, want %d and %s", step.name, source.lookups, got, step.lookups, step.want)
		}
	}
}
