package rest_test

import (
	"context"
	"net/http"
	"net/url"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/rest"
)

// Each of these storages implements a single interface. The methods are never called.
type (
	getter     struct{}
	lister     struct{}
	watcher    struct{}
	creater    struct{}
	updater    struct{}
	deleter    struct{}
	collection struct{}
	named      struct{}
	connecter  struct{ methods []string }
)

func (getter) Get(context.Context, types.NamespacedName, metav1.GetOptions) (*codec.Record, error) {
	return nil, nil
}
func (lister) List(context.Context, string, rest.ListOptions) (*rest.List, error)   { return nil, nil }
func (watcher) Watch(context.Context, string, rest.ListOptions) (rest.Watch, error) { return nil, nil }
func (creater) Create(context.Context, codec.Object, rest.ValidateObjectFunc, metav1.CreateOptions) (*codec.Record, error) {
	return nil, nil
}
func (updater) Update(context.Context, types.NamespacedName, rest.UpdateFunc, rest.UpdateOptions) (*codec.Record, bool, error) {
	return nil, false, nil
}
func (deleter) Delete(context.Context, types.NamespacedName, rest.ValidateObjectFunc, metav1.DeleteOptions) (*codec.Record, bool, error) {
	return nil, false, nil
}
func (collection) DeleteCollection(context.Context, string, rest.ValidateObjectFunc, metav1.DeleteOptions, rest.ListOptions) (*rest.List, error) {
	return nil, nil
}
func (named) CreateNamed(context.Context, types.NamespacedName, codec.Object, rest.ValidateObjectFunc, metav1.CreateOptions) (*codec.Record, error) {
	return nil, nil
}
func (connecter) ConnectOptions(url.Values, string) (runtime.Object, error) { return nil, nil }
func (connecter) Connect(context.Context, types.NamespacedName, runtime.Object, rest.ErrorWriter) (http.Handler, error) {
	return nil, nil
}
func (c connecter) Connection() rest.Connection { return rest.Connection{Methods: c.methods} }

type everything struct {
	getter
	lister
	watcher
	creater
	updater
	deleter
	collection
}

type readOnly struct {
	getter
	lister
	watcher
}

type status struct {
	getter
	updater
}

func TestVerbs(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		resource rest.Resource
		verbs    []string
		actions  []string
	}{
		"everything": {rest.Resource{Storage: everything{}},
			[]string{"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"},
			[]string{"LIST", "POST", "DELETECOLLECTION", "WATCHLIST", "GET", "PUT", "PATCH", "DELETE", "WATCH"}},
		"withheld": {rest.Resource{Storage: everything{}, WithoutVerbs: []string{"deletecollection", "watch"}},
			[]string{"create", "delete", "get", "list", "patch", "update"}, []string{"LIST", "POST", "GET", "PUT", "PATCH", "DELETE"}},
		"reads": {rest.Resource{Storage: readOnly{}}, []string{"get", "list", "watch"}, []string{"LIST", "WATCHLIST", "GET", "WATCH"}},
		"reads of untyped objects": {rest.Resource{Version: &codec.Version{Untyped: true}, Storage: readOnly{}},
			[]string{"get", "list", "watch"}, []string{"LIST", "WATCHLIST", "GET", "WATCH"}},
		"a custom resource": {rest.Resource{Custom: true, Version: &codec.Version{Untyped: true}, Storage: everything{}},
			[]string{"delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"},
			[]string{"LIST", "POST", "DELETECOLLECTION", "WATCHLIST", "GET", "PUT", "PATCH", "DELETE", "WATCH"}},
		"only create": {rest.Resource{Storage: creater{}}, []string{"create"}, []string{"POST"}},
		// A patch requires a Getter.
		"only update": {rest.Resource{Storage: updater{}}, []string{"update"}, []string{"PUT"}},
		"status":      {rest.Resource{Subresource: "status", Storage: status{}}, []string{"get", "patch", "update"}, []string{"GET", "PUT", "PATCH"}},
		"binding":     {rest.Resource{Subresource: "binding", Storage: named{}}, []string{"create"}, []string{"POST"}},
		"exec":        {rest.Resource{Subresource: "exec", Storage: connecter{[]string{"GET", "POST"}}}, []string{"create", "get"}, []string{"CONNECT", "CONNECT"}},
		"proxy": {rest.Resource{Subresource: "proxy", Storage: connecter{[]string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}}},
			[]string{"create", "delete", "get", "patch", "update"}, []string{"CONNECT", "CONNECT", "CONNECT", "CONNECT", "CONNECT"}},
		"nothing": {rest.Resource{Storage: struct{}{}}, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(test.verbs, test.resource.VerbNames()); diff != "" {
				t.Errorf("verbs (-want +got):\n%s", diff)
			}
			var actions []string
			for _, v := range test.resource.Verbs() {
				actions = append(actions, v.Action)
				if len(v.Methods) != 1 {
					t.Errorf("%s: methods %q", v.Action, v.Methods)
				}
			}
			if diff := cmp.Diff(test.actions, actions); diff != "" {
				t.Errorf("actions (-want +got):\n%s", diff)
			}
		})
	}
}

func TestNames(t *testing.T) {
	t.Parallel()
	r := rest.Resource{GroupVersion: schema.GroupVersion{Group: "apps", Version: "v1"}, Name: "deployments"}
	if r.FullName() != "deployments" || r.GroupResource().String() != "deployments.apps" || r.GVR().String() != "apps/v1, Resource=deployments" {
		t.Errorf("full name %s, group resource %s, GVR %s", r.FullName(), r.GroupResource(), r.GVR())
	}
	r.Subresource = "scale"
	if r.FullName() != "deployments/scale" || r.GroupResource().String() != "deployments.apps" {
		t.Errorf("subresource: full name %s, group resource %s", r.FullName(), r.GroupResource())
	}
}
