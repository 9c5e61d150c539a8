package request_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mainstay.dev/mainstay/internal/request"
)

func TestParse(t *testing.T) {
	t.Parallel()
	resource := func(i request.Info) request.Info { i.IsResource = true; return i }
	for _, test := range []struct {
		line string
		want request.Info
	}{
		{"GET /", request.Info{Verb: "get"}},
		{"GET /healthz", request.Info{Verb: "get"}},
		{"POST /version", request.Info{Verb: "post"}},
		{"GET /api", request.Info{Verb: "get"}},
		{"GET /api/v1", request.Info{Verb: "get"}},
		{"GET /apis/apps", request.Info{Verb: "get"}},
		{"GET /apis/apps/v1/", request.Info{Verb: "get"}},
		{"GET /api/v1/pods", resource(request.Info{Verb: "list", Version: "v1", Resource: "pods"})},
		{"GET /api/v1/pods?watch", resource(request.Info{Verb: "watch", Version: "v1", Resource: "pods"})},
		{"GET /api/v1/pods?watch=false", resource(request.Info{Verb: "list", Version: "v1", Resource: "pods"})},
		{"GET /api/v1/pods?watch=FaLsE", resource(request.Info{Verb: "list", Version: "v1", Resource: "pods"})},
		{"GET /api/v1/pods?watch=f", resource(request.Info{Verb: "watch", Version: "v1", Resource: "pods"})},
		{"GET /api/v1/pods?watch=0", resource(request.Info{Verb: "list", Version: "v1", Resource: "pods"})},
		{"GET /api/v1/pods?watch=1&fieldSelector=metadata.name%3Dp",
			resource(request.Info{Verb: "watch", Version: "v1", Resource: "pods", Name: "p", FieldSelector: "metadata.name=p"})},
		{"GET /api/v1/pods?fieldSelector=metadata.name%3D../x", resource(request.Info{Verb: "list", Version: "v1", Resource: "pods", FieldSelector: "metadata.name=../x"})},
		{"GET /api/v1/pods?labelSelector=a&fieldSelector=", resource(request.Info{Verb: "list", Version: "v1", Resource: "pods", LabelSelector: "a"})},
		{"GET /api/v1/watch/pods?labelSelector=a&fieldSelector=metadata.name%3Dp",
			resource(request.Info{Verb: "watch", Version: "v1", Resource: "pods", Name: "p", DeprecatedWatch: true})},
		{"GET /api/v1/namespaces/a/pods/p?labelSelector=a",
			resource(request.Info{Verb: "get", Version: "v1", Namespace: "a", Resource: "pods", Name: "p", NameInPath: true})},
		{"DELETE /api/v1/namespaces/a/pods?labelSelector=a&fieldSelector=metadata.name%3Dp",
			resource(request.Info{Verb: "deletecollection", Version: "v1", Namespace: "a", Resource: "pods", LabelSelector: "a", FieldSelector: "metadata.name=p"})},
		{"DELETE /api/v1/namespaces/a/pods", resource(request.Info{Verb: "deletecollection", Version: "v1", Namespace: "a", Resource: "pods"})},
		{"DELETE /api/v1/namespaces/a/pods/p",
			resource(request.Info{Verb: "delete", Version: "v1", Namespace: "a", Resource: "pods", Name: "p", NameInPath: true})},
		{"HEAD /api/v1/namespaces/a/pods/p",
			resource(request.Info{Verb: "get", Version: "v1", Namespace: "a", Resource: "pods", Name: "p", NameInPath: true})},
		{"PATCH /apis/apps/v1/namespaces/a/deployments/d/status",
			resource(request.Info{Verb: "patch", Group: "apps", Version: "v1", Namespace: "a", Resource: "deployments", Name: "d", NameInPath: true, Subresource: "status"})},
		{"GET /api/v1/namespaces/a/pods/p/proxy/x/y/",
			resource(request.Info{Verb: "get", Version: "v1", Namespace: "a", Resource: "pods", Name: "p", NameInPath: true, Subresource: "proxy", Tail: "x/y"})},
		{"GET /api/v1/namespaces", resource(request.Info{Verb: "list", Version: "v1", Resource: "namespaces"})},
		{"GET /api/v1/namespaces/a", resource(request.Info{Verb: "get", Version: "v1", Namespace: "a", Resource: "namespaces", Name: "a", NameInPath: true})},
		{"PUT /api/v1/namespaces/a/finalize",
			resource(request.Info{Verb: "update", Version: "v1", Namespace: "a", Resource: "namespaces", Name: "a", NameInPath: true, Subresource: "finalize"})},
		{"GET /api/v1/namespaces//pods", resource(request.Info{Verb: "list", Version: "v1", Resource: "pods"})},
		{"GET /api/v1/watch/namespaces/a/pods/p",
			resource(request.Info{Verb: "watch", Version: "v1", Namespace: "a", Resource: "pods", Name: "p", NameInPath: true, DeprecatedWatch: true})},
		{"GET /api/v1/namespaces//pods/p",
			resource(request.Info{Verb: "get", Version: "v1", Resource: "pods", Name: "p", NameInPath: true})},
		{"GET /api/v1/nodes//proxy/pods?fieldSelector=metadata.name%3Dn", resource(request.Info{Verb: "list", Version: "v1", Resource: "nodes", Name: "n",
			NameInPath: true, Subresource: "proxy", Tail: "pods", FieldSelector: "metadata.name=n", Unroutable: true})},
		{"GET /api/v1/nodes/n/proxy//a//b",
			resource(request.Info{Verb: "get", Version: "v1", Resource: "nodes", Name: "n", NameInPath: true, Subresource: "proxy", Tail: "/a//b"})},
		{"GET /api/v1/nodes/n//pods",
			resource(request.Info{Verb: "get", Version: "v1", Resource: "nodes", Name: "n", NameInPath: true, Tail: "pods", Unroutable: true})},
		{"GET /api/v1//pods", resource(request.Info{Verb: "get", Version: "v1", Name: "pods", NameInPath: true, Unroutable: true})},
		{"POST /api/v1/watch/nodes/n/proxy/run",
			resource(request.Info{Verb: "watch", Version: "v1", Resource: "nodes", Name: "n", NameInPath: true, Subresource: "proxy", Tail: "run",
				DeprecatedWatch: true, Unroutable: true})},
		{"OPTIONS /api/v1/pods", resource(request.Info{Verb: "", Version: "v1", Resource: "pods"})},
	} {
		t.Run(test.line, func(t *testing.T) {
			t.Parallel()
			method, target, _ := strings.Cut(test.line, " ")
			got, err := request.Parse(httptest.NewRequest(method, target, nil))
			if err != nil {
				t.Fatal(err)
			}
			test.want.Path, _, _ = strings.Cut(target, "?")
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("Info (-want +got):\n%s", diff)
			}
		})
	}
}

func TestParseRejectsWatchWithoutResource(t *testing.T) {
	t.Parallel()
	info, err := request.Parse(httptest.NewRequest(http.MethodGet, "/api/v1/watch", nil))
	if err == nil || info.IsResource {
		t.Errorf("Parse = %+v, %v; want a non-resource request and an error", info, err)
	}
}

// FuzzParse checks that parsing never panics and returns only names from the path or the selector.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{"/api/v1/pods", "/apis/apps/v1/namespaces/a/deployments/d/status/x", "/api/v1/watch/", "/apis//v1//", "//", "/api/v1/namespaces/a/status"} {
		f.Add("GET", seed, "watch=1&fieldSelector=metadata.name%3Da")
	}
	f.Fuzz(func(t *testing.T, method, path, query string) {
		r := &http.Request{Method: method, URL: &url.URL{Path: path, RawQuery: query}}
		info, err := request.Parse(r)
		if err != nil && info.IsResource {
			t.Errorf("Parse returned an error and a resource request: %+v", info)
		}
		if info.NameInPath && (info.Name == "" && !strings.Contains(path, "//") || strings.Contains(info.Name, "/")) {
			t.Errorf("name %q in path %q", info.Name, path)
		}
		if info.IsResource && strings.Contains(info.Resource+info.Subresource+info.Namespace, "/") {
			t.Errorf("the resource, subresource or namespace contains a slash: %+v", info)
		}
	})
}

func TestWarningsAreKeptOnceAndInOrder(t *testing.T) {
	t.Parallel()
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	ctx := request.NewContext(r.Context(), &request.Info{}, request.Received(r.Context()))
	for _, text := range []string{"b", "a", "", "b"} {
		request.AddWarning(ctx, text)
	}
	if diff := cmp.Diff([]string{"b", "a"}, request.WarningsFrom(ctx)); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
	request.AddWarning(r.Context(), "outside a request") // must not panic
}

func TestLongRunningByName(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]bool{
		"/api/v1/pods":                            false,
		"/api/v1/pods?watch=1":                    true,
		"/api/v1/watch/pods":                      true,
		"/api/v1/namespaces/a/pods/x/log":         true,
		"/api/v1/namespaces/a/pods/x/exec":        true,
		"/api/v1/namespaces/a/pods/x/attach":      true,
		"/api/v1/namespaces/a/pods/x/portforward": true,
		"/api/v1/namespaces/a/services/x/proxy/y": true,
		"/api/v1/namespaces/a/pods/x/status":      false,
		"/debug/pprof/profile":                    true,
		"/metrics":                                false,
	} {
		info, err := request.Parse(httptest.NewRequest("GET", path, nil))
		if err != nil {
			t.Fatal(err)
		}
		if got := request.LongRunningByName(&info); got != want {
			t.Errorf("%s: %t, want %t", path, got, want)
		}
	}
	if request.LongRunningByName(nil) {
		t.Error("a request without Info is long-running")
	}
}
