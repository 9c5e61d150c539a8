// Package loopback is the API client for code inside the server. Like client-go, it reads, writes and watches
// objects of any resource as typed values. It calls the REST storage directly, without a connection and without
// encoding. Admission, managed fields and validation apply to its writes in the same way as to requests of the
// client's user. It does not authorize requests: code inside the server has all permissions.
package loopback

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/request"
	"mainstay.dev/mainstay/internal/rest"
)

// API executes writes in the same way as requests of clients. ctx must contain the request.Info of the
// equivalent HTTP request. *endpoints.API implements API. Implementations must be safe for concurrent use.
type API interface {
	Create(ctx context.Context, resource *rest.Resource, obj codec.Object, options metav1.CreateOptions) (*codec.Record, error)
	Update(ctx context.Context, resource *rest.Resource, change func(codec.Object) (codec.Object, error), options metav1.UpdateOptions) (*codec.Record, error)
	Apply(ctx context.Context, resource *rest.Resource, configuration *unstructured.Unstructured, options metav1.ApplyOptions) (*codec.Record, error)
	Delete(ctx context.Context, resource *rest.Resource, options metav1.DeleteOptions) (record *codec.Record, gone bool, err error)
	NewDeleter(ctx context.Context, resource *rest.Resource, options metav1.DeleteOptions) (func(context.Context, types.NamespacedName) (gone bool, err error), error)
}

// Access provides access to the resources of a control plane as one user. It must not be modified after its
// first use. It is safe for concurrent use.
type Access struct {
	// API executes writes. It may be nil if the access is only used for reading.
	API API
	// Find returns a resource or, if subresource is not empty, a subresource. It returns nil if the resource is
	// not served.
	Find func(gv schema.GroupVersion, resource, subresource string) *rest.Resource
	// User is the user that admission and audit see for writes. nil means the server's own user,
	// system:apiserver.
	User *request.User
	// Manager is the field manager of writes.
	Manager string
}

// As returns a copy of a with another user and field manager. A nil user means the server's own user.
func (a *Access) As(user *request.User, manager string) *Access {
	return &Access{API: a.API, Find: a.Find, User: user, Manager: manager}
}

// AsController returns a copy of a for a controller. The user of the copy is the controller's service account
// in kube-system, as in kube-controller-manager.
func (a *Access) AsController(account string) *Access {
	return a.As(&request.User{
		Name:   request.ServiceAccountUser(metav1.NamespaceSystem, account),
		Groups: append(request.ServiceAccountGroups(metav1.NamespaceSystem), request.GroupAuthenticated),
	}, "kube-controller-manager")
}

// Client is a client for a resource or subresource whose objects have the Go type T, for example
// *corev1.ConfigMap. It is safe for concurrent use.
type Client[T codec.Object] struct {
	access      *Access
	resource    schema.GroupVersionResource
	subresource string
	cached      bool
}

// For returns a client for a resource. The client looks up the resource on each call, so the resource need not
// be served yet when For is called.
func For[T codec.Object](access *Access, resource schema.GroupVersionResource) *Client[T] {
	return &Client[T]{access: access, resource: resource}
}

// Subresource returns a client for a subresource of c's resource.
func (c *Client[T]) Subresource(name string) *Client[T] {
	return &Client[T]{access: c.access, resource: c.resource, subresource: name, cached: c.cached}
}

// Cached returns a client that caches decoded objects. Use it for small sets of objects that are
// read often and rarely written, such as classes.
func (c *Client[T]) Cached() *Client[T] {
	cached := *c
	cached.cached = true
	return &cached
}

// find returns the resource of a client, and its storage converted to S. It returns an error if the resource is
// not served or its storage does not implement S.
func find[S any, T codec.Object](c *Client[T]) (*rest.Resource, S, error) {
	var none S
	resource := c.access.Find(c.resource.GroupVersion(), c.resource.Resource, c.subresource)
	if resource == nil {
		return nil, none, fmt.Errorf("%s is not served", c)
	}
	storage, ok := resource.Storage.(S)
	if !ok {
		return nil, none, fmt.Errorf("%s does not support the verb", c)
	}
	return resource, storage, nil
}

// String returns the name of the resource, in the form resource.group/subresource.
func (c *Client[T]) String() string {
	name := c.resource.GroupResource().String()
	if c.subresource != "" {
		name += "/" + c.subresource
	}
	return name
}

// serverUser returns the user of an Access without a User. The user name is the same as in kube-apiserver.
func serverUser() *request.User {
	return &request.User{Name: "system:apiserver", Groups: []string{request.GroupMasters, request.GroupAuthenticated}}
}

// context returns the context for a write by the client's user.
func (c *Client[T]) context(ctx context.Context, verb string, name types.NamespacedName) context.Context {
	info := &request.Info{
		IsResource: true, Verb: verb, Group: c.resource.Group, Version: c.resource.Version, Resource: c.resource.Resource,
		Subresource: c.subresource, Namespace: name.Namespace, Name: name.Name, NameInPath: name.Name != "" && verb != "create",
	}
	info.Path = path(info)
	ctx = request.NewContext(rest.WithoutReadPoint(ctx), info, time.Now())
	user := c.access.User
	if user == nil {
		user = serverUser()
	}
	request.SetUser(ctx, user)
	request.SetFieldManager(ctx, c.access.Manager)
	return ctx
}

// path returns the URL path of the HTTP request that info describes.
func path(info *request.Info) string {
	prefix := "/apis/" + info.Group + "/"
	if info.Group == "" {
		prefix = "/api/"
	}
	path := prefix + info.Version
	if info.Namespace != "" {
		path += "/namespaces/" + info.Namespace
	}
	path += "/" + info.Resource
	if info.NameInPath {
		path += "/" + info.Name
	}
	if info.Subresource != "" {
		path += "/" + info.Subresource
	}
	return path
}
