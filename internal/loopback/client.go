// Package loopback is the client of server code. Like client-go, it reads, writes and watches
// objects of any resource as typed values. It uses the REST storage directly, with the admission,
// managed fields and validation of a request by its user, but without connections and encoding. It
// does not authorize: server code has all permissions.
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

// API carries out writes as for a client that has sent them; endpoints.API does.
type API interface {
	Create(ctx context.Context, resource *rest.Resource, obj codec.Object, options metav1.CreateOptions) (*codec.Record, error)
	Update(ctx context.Context, resource *rest.Resource, change func(codec.Object) (codec.Object, error), options metav1.UpdateOptions) (*codec.Record, error)
	Apply(ctx context.Context, resource *rest.Resource, configuration *unstructured.Unstructured, options metav1.ApplyOptions) (*codec.Record, error)
	Delete(ctx context.Context, resource *rest.Resource, options metav1.DeleteOptions) (record *codec.Record, gone bool, err error)
	DeleteSome(ctx context.Context, resource *rest.Resource, options metav1.DeleteOptions) (func(context.Context, types.NamespacedName) (gone bool, err error), error)
}

// Access is to the resources of one control plane, for one user. It is not changed
// once it is used, and then safe for concurrent use.
type Access struct {
	// API writes. It is not needed to read.
	API API
	// Find returns a resource, or nil if there is none.
	Find func(gv schema.GroupVersion, resource, subresource string) *rest.Resource
	// User is whom admission and audit see. nil: the server itself.
	User *request.User
	// Manager is the field manager of writes.
	Manager string
}

// As returns the access of another user, by another field manager; user as in Access.
func (a *Access) As(user *request.User, manager string) *Access {
	return &Access{API: a.API, Find: a.Find, User: user, Manager: manager}
}

// AsController returns the access of a controller. It acts as a service account in kube-system,
// like the controllers of kube-controller-manager.
func (a *Access) AsController(account string) *Access {
	return a.As(&request.User{
		Name:   request.ServiceAccountUser(metav1.NamespaceSystem, account),
		Groups: append(request.ServiceAccountGroups(metav1.NamespaceSystem), request.GroupAuthenticated),
	}, "kube-controller-manager")
}

// Client is a client for a resource or subresource with the Go type T, for example
// *corev1.ConfigMap. It is safe for concurrent use.
type Client[T codec.Object] struct {
	access      *Access
	resource    schema.GroupVersionResource
	subresource string
	keeps       bool
}

// For returns a client for a resource. The resource is looked for when it is used.
func For[T codec.Object](access *Access, resource schema.GroupVersionResource) *Client[T] {
	return &Client[T]{access: access, resource: resource}
}

// Subresource returns a client for a subresource of the resource.
func (c *Client[T]) Subresource(name string) *Client[T] {
	return &Client[T]{access: c.access, resource: c.resource, subresource: name, keeps: c.keeps}
}

// Keeping returns a client that caches decoded objects. Use it for small sets of objects that are
// read often and rarely written, such as classes.
func (c *Client[T]) Keeping() *Client[T] {
	keeping := *c
	keeping.keeps = true
	return &keeping
}

// find returns the resource, and its storage as an S.
func find[S any, T codec.Object](c *Client[T]) (*rest.Resource, S, error) {
	var none S
	resource := c.access.Find(c.resource.GroupVersion(), c.resource.Resource, c.subresource)
	if resource == nil {
		return nil, none, fmt.Errorf("%s is not served", c)
	}
	storage, ok := resource.Storage.(S)
	if !ok {
		return nil, none, fmt.Errorf("%s has no such verb", c)
	}
	return resource, storage, nil
}

// String is the name of the resource.
func (c *Client[T]) String() string {
	name := c.resource.GroupResource().String()
	if c.subresource != "" {
		name += "/" + c.subresource
	}
	return name
}

// serverUser returns the default user, with kube-apiserver's name.
func serverUser() *request.User {
	return &request.User{Name: "system:apiserver", Groups: []string{request.GroupMasters, request.GroupAuthenticated}}
}

// context is that of a write as the client's user.
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
	return ctx
}

// path is where a request from outside would be sent.
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
