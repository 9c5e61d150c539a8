package controlplane

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/endpoints/route"
	"mainstay.dev/mainstay/internal/request"
	"mainstay.dev/mainstay/internal/rest"
)

// stream is a Connecter that lasts, or does not.
type stream struct{ lasts bool }

func (stream) ConnectOptions(url.Values, string) (runtime.Object, error) { return nil, nil }
func (stream) Connect(context.Context, types.NamespacedName, runtime.Object, rest.ErrorWriter) (http.Handler, error) {
	return http.NotFoundHandler(), nil
}
func (s stream) Connection() rest.Connection {
	return rest.Connection{Methods: []string{http.MethodGet}, TakesPath: true, LongRunning: s.lasts}
}

// TestLongRunning checks that the storage of a subresource determines whether its requests are
// long-running, and the well-known names for all other requests.
func TestLongRunning(t *testing.T) {
	t.Parallel()
	subresource := func(name string, storage rest.Storage) *rest.Resource {
		return &rest.Resource{GroupVersion: corev1.SchemeGroupVersion, Name: "pods", Subresource: name, Namespaced: true, Storage: storage,
			Version: &codec.Version{GVK: schema.GroupVersionKind{Version: "v1", Kind: "Pod"}}}
	}
	c := newPlane(t, newEnv(t), "/registry")
	if err := c.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	r := &requestResources{registrations: c.opened.Load().resources.registrations, catalog: route.NewCatalog(route.NewStatic([]*rest.Resource{
		subresource("stream", stream{true}), subresource("log", stream{false}), subresource("exec", struct{}{}), subresource("status", struct{}{}),
	}))}
	for path, want := range map[string]bool{
		"/api/v1/pods":                           false,
		"/api/v1/pods?watch=1":                   true,
		"/api/v1/watch/namespaces/a/pods/x":      true,
		"/api/v1/namespaces/a/pods/x/stream":     true,
		"/api/v1/namespaces/a/pods/x/stream/y/z": true,
		"/api/v1/namespaces/a/pods/x/log":        false,
		"/api/v1/namespaces/a/pods/x/exec":       false,
		"/api/v1/namespaces/a/pods/x/status":     false,
		"/api/v1/namespaces/a/pods/x/attach":     false,
		"/debug/pprof/profile":                   true,
		"/metrics":                               false,
	} {
		info, err := request.Parse(httptest.NewRequest("GET", path, nil))
		if err != nil {
			t.Fatal(err)
		}
		if got := r.longRunning(&info); got != want {
			t.Errorf("%s: %t, want %t", path, got, want)
		}
	}
}

// TestTokenReview checks the review of an unknown token.
func TestTokenReview(t *testing.T) {
	t.Parallel()
	c := newPlane(t, newEnv(t), "/registry")
	code, answer := send(t, c, "POST", "/apis/authentication.k8s.io/v1/tokenreviews", `{"spec":{"token":"x"}}`)
	if code != http.StatusCreated || !strings.Contains(answer, `"status":{"user":{},"error":"invalid bearer token"}`) {
		t.Errorf("%d %s", code, answer)
	}
}

// TestEquivalents checks that events are the same objects in both groups, as are custom objects in
// all versions.
func TestEquivalents(t *testing.T) {
	t.Parallel()
	c := newPlane(t, newEnv(t), "/registry")
	const versions = `[{"name":"v1","served":true,"storage":true,"subresources":{"status":{}},"schema":{"openAPIV3Schema":{"type":"object"}}},` +
		`{"name":"v2","served":true,"storage":false,"schema":{"openAPIV3Schema":{"type":"object"}}},` +
		`{"name":"v3","served":false,"storage":false,"schema":{"openAPIV3Schema":{"type":"object"}}}]`
	if code, answer := send(t, c, "POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
		`{"metadata":{"name":"gears.example.com"},"spec":{"group":"example.com","scope":"Namespaced","names":{"plural":"gears","kind":"Gear"},"versions":`+versions+`}}`); code != http.StatusCreated {
		t.Fatalf("%d %s", code, answer)
	}
	i := c.opened.Load()
	gears := schema.GroupVersion{Group: "example.com", Version: "v1"}
	for deadline := time.Now().Add(time.Minute); i.resources.catalog.Find(gears, "gears", "") == nil; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the definition is not established")
		}
	}
	for asked, want := range map[string]string{
		"v1 events":                                   "v1 events.k8s.io/v1",
		"events.k8s.io/v1 events":                     "v1 events.k8s.io/v1",
		"v1 pods":                                     "v1",
		"v1 pods/status":                              "v1",
		"apps/v1 deployments/scale":                   "apps/v1",
		"example.com/v1 gears":                        "example.com/v1 example.com/v2",
		"example.com/v2 gears":                        "example.com/v1 example.com/v2",
		"example.com/v1 gears/status":                 "example.com/v1",
		"authentication.k8s.io/v1 selfsubjectreviews": "",
	} {
		version, name, _ := strings.Cut(asked, " ")
		name, subresource, _ := strings.Cut(name, "/")
		gv, err := schema.ParseGroupVersion(version)
		if err != nil {
			t.Fatal(err)
		}
		resource := i.resources.catalog.Find(gv, name, subresource)
		if resource == nil {
			t.Errorf("%s is not served", asked)
			continue
		}
		got := map[string]bool{}
		for _, r := range i.resources.catalog.Equivalents(resource) {
			if r.Name != name || r.Subresource != subresource {
				t.Errorf("%s: %s", asked, r.FullName())
			}
			got[r.GroupVersion.String()] = true
		}
		if len(got) != len(strings.Fields(want)) {
			t.Errorf("%s: %v, want %s", asked, got, want)
		}
		for _, version := range strings.Fields(want) {
			if !got[version] {
				t.Errorf("%s: %v, want %s", asked, got, want)
			}
		}
	}
}
