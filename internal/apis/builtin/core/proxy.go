package core

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utilnet "k8s.io/apimachinery/pkg/util/net"

	"mainstay.dev/mainstay/internal/apis/builtin"
	"mainstay.dev/mainstay/internal/egress"
	"mainstay.dev/mainstay/internal/egress/kubelet"
	"mainstay.dev/mainstay/internal/registry"
	"mainstay.dev/mainstay/internal/rest"
)

// locate returns the URL of the server to which requests for an object are forwarded, and the transport to
// use.
type locate func(ctx context.Context, env *builtin.Env, store *registry.Store, name proxyName) (*url.URL, http.RoundTripper, error)

// proxyName is the parsed name in a proxy request. Its syntax is [SCHEME:]NAME[:PORT].
type proxyName struct {
	types.NamespacedName
	scheme, port string
}

// proxySubresource declares the /proxy subresource of a kind.
func proxySubresource(kind string, locate locate, newOptions func(path string) runtime.Object, pathOf func(runtime.Object) string) builtin.Subresource {
	options := kind + "ProxyOptions"
	return connectSubresource("proxy", options, func(env *builtin.Env, store *registry.Store) rest.Storage {
		return &proxier{env: env, store: store, kind: strings.ToLower(kind), options: options, locate: locate, newOptions: newOptions, pathOf: pathOf}
	})
}

func podProxy() builtin.Subresource {
	return proxySubresource("Pod", locatePod,
		func(path string) runtime.Object { return &corev1.PodProxyOptions{Path: path} },
		func(o runtime.Object) string { return o.(*corev1.PodProxyOptions).Path })
}

func serviceProxy() builtin.Subresource {
	return proxySubresource("Service", locateService,
		func(path string) runtime.Object { return &corev1.ServiceProxyOptions{Path: path} },
		func(o runtime.Object) string { return o.(*corev1.ServiceProxyOptions).Path })
}

func nodeProxy() builtin.Subresource {
	return proxySubresource("Node", locateNode,
		func(path string) runtime.Object { return &corev1.NodeProxyOptions{Path: path} },
		func(o runtime.Object) string { return o.(*corev1.NodeProxyOptions).Path })
}

type proxier struct {
	env           *builtin.Env
	store         *registry.Store
	kind, options string
	locate        locate
	newOptions    func(path string) runtime.Object
	pathOf        func(runtime.Object) string
}

var _ rest.Connecter = (*proxier)(nil)

// Connection implements rest.Connecter.
func (p *proxier) Connection() rest.Connection {
	return rest.Connection{Methods: proxyMethods(), Options: p.options, AllowsPath: true, LongRunning: true}
}

// ConnectOptions implements rest.Connecter.
func (p *proxier) ConnectOptions(_ url.Values, path string) (runtime.Object, error) {
	return p.newOptions(path), nil
}

// Connect implements rest.Connecter.
func (p *proxier) Connect(ctx context.Context, name types.NamespacedName, options runtime.Object, onError rest.ErrorWriter) (http.Handler, error) {
	scheme, object, port, ok := utilnet.SplitSchemeNamePort(name.Name)
	if !ok {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("invalid %s request %q", p.kind, name.Name))
	}
	to, transport, err := p.locate(ctx, p.env, p.store, proxyName{types.NamespacedName{Namespace: name.Namespace, Name: object}, scheme, port})
	if err != nil {
		return nil, err
	}
	if to.Scheme == "" {
		to.Scheme = "http"
	}
	to.Path = cleanPath(p.pathOf(options))
	return p.env.Connections.Kubelets.Forward(to, transport, onError), nil
}

// cleanPath removes . and .. segments from a path, but keeps a trailing slash.
func cleanPath(from string) string {
	if from == "" {
		return ""
	}
	to := path.Join("/", from)
	if strings.HasSuffix(from, "/") && !strings.HasSuffix(to, "/") {
		to += "/"
	}
	return to
}

// errAddress returns the error for a connection to an address that is not allowed.
func errAddress() error { return apierrors.NewBadRequest(kubelet.ErrAddressNotAllowed.Error()) }

func locatePod(ctx context.Context, env *builtin.Env, pods *registry.Store, name proxyName) (*url.URL, http.RoundTripper, error) {
	pod, err := readStored[*corev1.Pod](ctx, pods, name.NamespacedName)
	if err != nil {
		return nil, nil, err
	}
	address := ""
	if len(pod.Status.PodIPs) > 0 {
		address = pod.Status.PodIPs[0].IP
	}
	if !env.Connections.Kubelets.AllowedAddress(address) {
		return nil, nil, errAddress()
	}
	port := name.port
	if port == "" {
		port = firstPort(pod)
	}
	to := &url.URL{Scheme: name.scheme, Host: address}
	switch {
	case port != "":
		to.Host = net.JoinHostPort(address, port)
	case strings.Contains(address, ":"):
		to.Host = "[" + address + "]"
	}
	return to, env.Connections.Kubelets.Direct(), nil
}

// firstPort returns the first port of the first container that has ports.
func firstPort(pod *corev1.Pod) string {
	for i := range pod.Spec.Containers {
		if ports := pod.Spec.Containers[i].Ports; len(ports) > 0 {
			return strconv.Itoa(int(ports[0].ContainerPort))
		}
	}
	return ""
}

func locateNode(ctx context.Context, env *builtin.Env, nodes *registry.Store, name proxyName) (*url.URL, http.RoundTripper, error) {
	node, err := readStored[*corev1.Node](ctx, nodes, name.NamespacedName)
	if err != nil {
		return nil, nil, err
	}
	at, err := env.Connections.Kubelets.ConnectionInfo(node)
	if err != nil {
		return nil, nil, err
	}
	if err := env.Connections.Kubelets.CheckHost(ctx, at.Host); err != nil {
		return nil, nil, apierrors.NewBadRequest(err.Error())
	}
	if name.port == "" || name.port == at.Port {
		return at.URL(), env.Connections.Kubelets.Transport(), nil
	}
	return &url.URL{Scheme: name.scheme, Host: net.JoinHostPort(at.Host, name.port)}, env.Connections.Kubelets.Direct(), nil
}

func locateService(ctx context.Context, env *builtin.Env, services *registry.Store, name proxyName) (*url.URL, http.RoundTripper, error) {
	service, err := readStored[*corev1.Service](ctx, services, name.NamespacedName)
	if err != nil {
		return nil, nil, err
	}
	port, err := servicePortName(service, name.port)
	if err != nil {
		return nil, nil, err
	}
	pods := env.Store(corev1.Resource("pods"))
	host, err := egress.Endpoint(ctx, env.Connections.Cluster, service, port, func(endpoint *egress.EndpointAddress) bool {
		return isPodAddress(ctx, env, pods, service.Namespace, endpoint)
	})
	if err != nil {
		return nil, nil, err
	}
	return &url.URL{Scheme: name.scheme, Host: host}, env.Connections.Kubelets.Direct(), nil
}

// servicePortName returns the name of a service port. port is the name or number of the service port.
func servicePortName(service *corev1.Service, port string) (string, error) {
	number, err := strconv.ParseInt(port, 10, 64)
	if err != nil {
		return port, nil
	}
	for i := range service.Spec.Ports {
		if one := &service.Spec.Ports[i]; int64(one.Port) == number {
			return one.Name, nil
		}
	}
	return "", apierrors.NewServiceUnavailable(fmt.Sprintf("no service port %d found for service %q", number, service.Name))
}

// isPodAddress reports whether an endpoint is the address of an existing pod in the namespace of the service.
// Without this check, anyone who can write an Endpoints object could make the server connect to any address.
func isPodAddress(ctx context.Context, env *builtin.Env, pods *registry.Store, namespace string, endpoint *egress.EndpointAddress) bool {
	ref := endpoint.TargetRef
	if ref == nil || ref.Namespace != namespace || !env.Connections.Kubelets.AllowedAddress(endpoint.IP) {
		return false
	}
	pod, err := readStored[*corev1.Pod](ctx, pods, types.NamespacedName{Namespace: namespace, Name: ref.Name})
	if err != nil {
		return false
	}
	for _, ip := range pod.Status.PodIPs {
		if ip.IP == endpoint.IP {
			return true
		}
	}
	return false
}
