package egress

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Cluster reads services and their endpoints. The returned objects are shared and must not be
// modified. It must be safe for concurrent use.
type Cluster interface {
	// Service returns a NotFound API error if the service does not exist.
	Service(ctx context.Context, namespace, name string) (*corev1.Service, error)
	// EndpointSlices returns the slices of a service. The result may be empty.
	EndpointSlices(ctx context.Context, namespace, service string) ([]*discoveryv1.EndpointSlice, error)
	// Endpoints returns a NotFound API error if the object does not exist.
	Endpoints(ctx context.Context, namespace, name string) (*corev1.Endpoints, error)
}

// Services is a Resolver that reads services and endpoints of a cluster without a cache. Its fields
// must not be modified after the first call. It is safe for concurrent use.
type Services struct {
	Cluster Cluster
	// ToEndpoints resolves services to one of their endpoints instead of their cluster IP.
	ToEndpoints bool
	// Self is the host:port of this server, to which the service default/kubernetes:443 resolves.
	// If Self is empty, this service is resolved like any other.
	Self string
}

var _ Resolver = (*Services)(nil)

// Resolve implements Resolver. Its errors are API errors: NotFound if the service does not exist,
// and ServiceUnavailable if it does not have the port or has no ready endpoints.
func (s *Services) Resolve(ctx context.Context, service Service) (string, error) {
	if s.Self != "" && service == (Service{Namespace: corev1.NamespaceDefault, Name: "kubernetes", Port: 443}) {
		return s.Self, nil
	}
	found, err := s.Cluster.Service(ctx, service.Namespace, service.Name)
	if err != nil {
		return "", err
	}
	if found.Spec.Type == corev1.ServiceTypeExternalName {
		return hostPort(found.Spec.ExternalName, service.Port), nil
	}
	port, err := servicePort(found, service.Port)
	if err != nil {
		return "", err
	}
	if ip := found.Spec.ClusterIP; ip != "" && ip != corev1.ClusterIPNone && !s.ToEndpoints {
		return hostPort(ip, port.Port), nil
	}
	return s.endpoint(ctx, found, port.Name)
}

func servicePort(service *corev1.Service, number int32) (*corev1.ServicePort, error) {
	for i := range service.Spec.Ports {
		if port := &service.Spec.Ports[i]; port.Port == number {
			return port, nil
		}
	}
	return nil, apierrors.NewServiceUnavailable(fmt.Sprintf("no service port %d found for service %q", number, service.Name))
}

// endpoint returns the host:port of a random ready endpoint for a named port of the service.
func (s *Services) endpoint(ctx context.Context, service *corev1.Service, port string) (string, error) {
	host, err := Endpoint(ctx, s.Cluster, service, port, nil)
	if apierrors.IsNotFound(err) {
		return "", noEndpoints(service)
	}
	return host, err
}

// EndpointAddress is the IP address of an endpoint. TargetRef refers to the object with this
// address, usually a pod, and may be nil.
type EndpointAddress struct {
	IP        string
	TargetRef *corev1.ObjectReference
}

// Endpoint returns the host:port of a random ready and valid endpoint of a service's port. A nil
// valid accepts all endpoints. Errors are API errors: NotFound if the service has neither
// EndpointSlices nor Endpoints, ServiceUnavailable if no endpoint is ready and valid.
func Endpoint(ctx context.Context, cluster Cluster, service *corev1.Service, port string, valid func(*EndpointAddress) bool) (string, error) {
	if valid == nil {
		valid = func(*EndpointAddress) bool { return true }
	}
	found, err := cluster.EndpointSlices(ctx, service.Namespace, service.Name)
	if err != nil {
		return "", err
	}
	var ready []string
	if len(found) > 0 {
		ready = readyInSlices(found, primaryFamily(service), port, valid)
	} else {
		endpoints, err := cluster.Endpoints(ctx, service.Namespace, service.Name)
		if apierrors.IsNotFound(err) {
			return "", apierrors.NewNotFound(corev1.Resource("services"), service.Name)
		}
		if err != nil {
			return "", err
		}
		ready = readyEndpoints(endpoints, port, valid)
	}
	if len(ready) == 0 {
		return "", noEndpoints(service)
	}
	return ready[rand.IntN(len(ready))], nil
}

func noEndpoints(service *corev1.Service) error {
	return apierrors.NewServiceUnavailable(fmt.Sprintf("no endpoints available for service %q", service.Name))
}

// primaryFamily returns the address type of a service's first IP family.
func primaryFamily(service *corev1.Service) discoveryv1.AddressType {
	if families := service.Spec.IPFamilies; len(families) > 0 {
		return discoveryv1.AddressType(families[0])
	}
	return discoveryv1.AddressTypeIPv4
}

// readyInSlices returns the ready endpoints of the primary address type, or of the other types if
// the primary type has no ready endpoints.
func readyInSlices(all []*discoveryv1.EndpointSlice, primary discoveryv1.AddressType, port string, valid func(*EndpointAddress) bool) []string {
	var preferred, others []string
	for _, slice := range all {
		i := slices.IndexFunc(slice.Ports, func(p discoveryv1.EndpointPort) bool {
			return p.Port != nil && (p.Name == nil && port == "" || p.Name != nil && *p.Name == port)
		})
		if i < 0 {
			continue
		}
		for j := range slice.Endpoints {
			e := &slice.Endpoints[j]
			if len(e.Addresses) == 0 || e.Conditions.Ready != nil && !*e.Conditions.Ready || !valid(&EndpointAddress{e.Addresses[0], e.TargetRef}) {
				continue
			}
			address := hostPort(e.Addresses[0], *slice.Ports[i].Port) // the other addresses belong to the same endpoint
			if slice.AddressType == primary {
				preferred = append(preferred, address)
			} else {
				others = append(others, address)
			}
		}
	}
	if len(preferred) > 0 {
		return preferred
	}
	return others
}

func readyEndpoints(endpoints *corev1.Endpoints, port string, valid func(*EndpointAddress) bool) []string {
	var ready []string
	for i := range endpoints.Subsets {
		subset := &endpoints.Subsets[i]
		for j := range subset.Ports {
			if subset.Ports[j].Name != port {
				continue
			}
			for k := range subset.Addresses {
				if address := &subset.Addresses[k]; valid(&EndpointAddress{address.IP, address.TargetRef}) {
					ready = append(ready, hostPort(address.IP, subset.Ports[j].Port))
				}
			}
		}
	}
	return ready
}

func hostPort(host string, port int32) string { return net.JoinHostPort(host, strconv.Itoa(int(port))) }
