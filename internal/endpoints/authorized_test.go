package endpoints_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/authorizer"
	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/endpoints"
	"mainstay.dev/mainstay/internal/endpoints/route"
	"mainstay.dev/mainstay/internal/request"
	"mainstay.dev/mainstay/internal/rest"
)

// execution is a recorded call to REST storage.
type execution struct{ verb, namespace, resource, subresource, name string }

var errExecuted = errors.New("executed")

// recorder is storage that supports every verb and records its calls.
type recorder struct {
	resource, subresource string
	executed              *[]execution
}

func (r recorder) record(verb string, name types.NamespacedName) error {
	*r.executed = append(*r.executed, execution{verb, name.Namespace, r.resource, r.subresource, name.Name})
	return errExecuted
}

func (r recorder) Get(_ context.Context, name types.NamespacedName, _ metav1.GetOptions) (*codec.Record, error) {
	return nil, r.record("get", name)
}

func (r recorder) List(_ context.Context, namespace string, _ rest.ListOptions) (*rest.List, error) {
	return nil, r.record("list", types.NamespacedName{Namespace: namespace})
}

func (r recorder) Watch(_ context.Context, namespace string, _ rest.ListOptions) (rest.Watch, error) {
	return nil, r.record("watch", types.NamespacedName{Namespace: namespace})
}

func (r recorder) Create(_ context.Context, obj codec.Object, _ rest.ValidateObjectFunc, _ metav1.CreateOptions) (*codec.Record, error) {
	return nil, r.record("create", types.NamespacedName{Namespace: obj.GetNamespace()})
}

func (r recorder) Update(_ context.Context, name types.NamespacedName, _ rest.UpdateFunc, _ rest.UpdateOptions) (*codec.Record, bool, error) {
	return nil, false, r.record("update", name)
}

func (r recorder) Delete(_ context.Context, name types.NamespacedName, _ rest.ValidateObjectFunc, _ metav1.DeleteOptions) (*codec.Record, bool, error) {
	return nil, false, r.record("delete", name)
}

func (r recorder) DeleteCollection(_ context.Context, namespace string, _ rest.ValidateObjectFunc, _ metav1.DeleteOptions, _ rest.ListOptions) (*rest.List, error) {
	return nil, r.record("deletecollection", types.NamespacedName{Namespace: namespace})
}

// connectRecorder is a connect subresource that records its calls.
type connectRecorder struct{ recorder }

func (connectRecorder) ConnectOptions(url.Values, string) (runtime.Object, error) { return nil, nil }

func (c connectRecorder) Connect(_ context.Context, name types.NamespacedName, _ runtime.Object, _ rest.ErrorWriter) (http.Handler, error) {
	return nil, c.record("connect", name)
}

func (connectRecorder) Connection() rest.Connection {
	return rest.Connection{AllowsPath: true, Methods: []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}}
}

// connectVerbs contains the verbs that authorize a connection, by HTTP method.
var connectVerbs = map[string]string{"GET": "get", "HEAD": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete", "OPTIONS": ""}

func recordingResources(executed *[]execution) []*rest.Resource {
	kind := kindOf("", "v1", "ConfigMap", func() codec.Object { return new(corev1.ConfigMap) })
	var all []*rest.Resource
	for _, name := range []string{"pods", "nodes", "namespaces"} {
		for _, subresource := range []string{"", "status", "proxy", "log", "finalize"} {
			r := &rest.Resource{
				GroupVersion: schema.GroupVersion{Version: "v1"}, Name: name, Subresource: subresource, Namespaced: name == "pods",
				Kind: kind, Version: kind.Hub,
			}
			storage := recorder{name, subresource, executed}
			if r.Storage = storage; subresource == "proxy" || subresource == "log" {
				r.Storage = connectRecorder{storage}
			}
			all = append(all, r)
		}
	}
	return all
}

// TestExecutedAsAuthorized sends random requests and compares the attributes that are authorized with the
// resulting storage calls.
func TestExecutedAsAuthorized(t *testing.T) {
	t.Parallel()
	var executed []execution
	handler := &route.Handler{
		Catalog:     route.NewCatalog(route.NewStatic(recordingResources(&executed))),
		API:         endpoints.New(endpoints.Config{}),
		NonResource: http.NotFoundHandler(),
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	calls := 0
	for range 50_000 {
		method, target := randomRequest(random)
		r := httptest.NewRequest(method, target, strings.NewReader(`{"apiVersion":"v1","kind":"ConfigMap"}`))
		r.Header.Set("Content-Type", "application/merge-patch+json")
		if method == http.MethodPost || method == http.MethodPut {
			r.Header.Set("Content-Type", "application/json")
		}
		info, err := request.Parse(r)
		if err != nil {
			continue
		}
		attributes := authorizer.AttributesOf(&request.User{}, &info)
		executed = executed[:0]
		handler.ServeHTTP(httptest.NewRecorder(), r.WithContext(contextOf(r, &info)))
		for _, e := range executed {
			calls++
			if got, want := e, authorizedExecution(method, &attributes, e); got != want {
				t.Errorf("%s %s: authorized as %+v, executed as %+v", method, target, attributes, got)
			}
		}
	}
	if calls < 5_000 {
		t.Errorf("only %d requests reached storage", calls)
	}
}

// authorizedExecution returns the storage call that the attributes authorize. e is the recorded call.
func authorizedExecution(method string, a *authorizer.Attributes, e execution) execution {
	want := execution{a.Verb, a.Namespace, a.Resource, a.Subresource, a.Name}
	switch {
	case e.verb == "connect" && a.Verb == connectVerbs[method]:
		want.verb = "connect"
	case a.Verb == "patch" && (e.verb == "update" || e.verb == "get"):
		want.verb = e.verb
	case a.Verb == "list" || a.Verb == "watch" || a.Verb == "deletecollection" || a.Verb == "create":
		want.name = "" // selected by a field selector
	}
	if a.Resource == "namespaces" && e.namespace == "" {
		want.namespace = "" // as in kube-apiserver, a namespace object is authorized in the namespace of its name
	}
	return want
}

func randomRequest(random *rand.Rand) (method, target string) {
	pick := func(from ...string) string { return from[random.IntN(len(from))] }
	method = pick("GET", "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
	var path strings.Builder
	path.WriteString("/api/v1")
	if random.IntN(4) == 0 {
		path.WriteString("/watch")
	}
	if random.IntN(2) == 0 {
		path.WriteString("/namespaces/" + pick("a", "a", ""))
	}
	path.WriteString("/" + pick("pods", "pods", "nodes", "namespaces", ""))
	for range random.IntN(5) {
		path.WriteString("/" + pick("n", "n", "proxy", "log", "status", "finalize", "watch", "namespaces", "pods", "", "b%2Fc"))
	}
	path.WriteString(pick("", "", "/", "//"))
	return method, path.String() + pick("", "?watch=1", "?fieldSelector=metadata.name%3Dn", "?watch=1&fieldSelector=metadata.name%3Dn", "?labelSelector=a")
}
