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

// Cluster returns services and their endpoints. The objects are shared and must not
// be changed. It must be safe for concurrent use.
type Cluster interface {
	// Service returns a NotFound API error if there is none.
	Service(ctx context.Context, namespace, name string) (*corev1.Service, error)
	// EndpointSlices returns those of a service; none is no error.
	EndpointSlices(ctx context.Context, namespace, service string) ([]*discoveryv1.EndpointSlice, error)
	// Endpoints returns a NotFound API error if there are none.
	Endpoints(ctx context.Context, namespace, name string) (*corev1.Endpoints, error)
}

// Services is a Resolver that looks up services and their endpoints in a cluster. It
// caches nothing.
type Services struct {
	Cluster Cluster
	// ToEndpoints: services resolve to one of their endpoints instead of their
	// cluster IP.
	ToEndpoints bool
	// Self, if set, is the host:port of default/kubernetes:443, which is this
	// server.
	Self string
}

var _ Resolver = (*Services)(nil)

// Resolve implements Resolver. Its errors are API errors: NotFound for a missing
// service, ServiceUnavailable for one without the port or without ready endpoints.
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

// endpoint returns one of the ready endpoints of a port, at random.
func (s *Services) endpoint(ctx context.Context, service *corev1.Service, port string) (string, error) {
	found, err := s.Cluster.EndpointSlices(ctx, service.Namespace, service.Name)
	if err != nil {
		return "", err
	}
	var ready []string
	if len(found) > 0 {
		ready = readyInSlices(found, primaryFamily(service), port)
	} else {
		endpoints, err := s.Cluster.Endpoints(ctx, service.Namespace, service.Name)
		if err != nil && !apierrors.IsNotFound(err) {
			return "", err
		}
		ready = readyEndpoints(endpoints, port)
	}
	if len(ready) == 0 {
		return "", apierrors.NewServiceUnavailable(fmt.Sprintf("no endpoints available for service %q", service.Name))
	}
	return ready[rand.IntN(len(ready))], nil
}

// primaryFamily returns the address type of a service's first IP family.
func primaryFamily(service *corev1.Service) discoveryv1.AddressType {
	if families := service.Spec.IPFamilies; len(families) > 0 {
		return discoveryv1.AddressType(families[0])
	}
	return discoveryv1.AddressTypeIPv4
}

// readyInSlices returns the ready endpoints of the primary address type, or, if there
// are none, those of others.
func readyInSlices(all []*discoveryv1.EndpointSlice, primary discoveryv1.AddressType, port string) []string {
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
			if len(e.Addresses) == 0 || e.Conditions.Ready != nil && !*e.Conditions.Ready {
				continue
			}
			address := hostPort(e.Addresses[0], *slice.Ports[i].Port) // further addresses belong to the same endpoint
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

func readyEndpoints(endpoints *corev1.Endpoints, port string) []string {
	if endpoints == nil {
		return nil
	}
	var ready []string
	for i := range endpoints.Subsets {
		subset := &endpoints.Subsets[i]
		for j := range subset.Ports {
			if subset.Ports[j].Name != port {
				continue
			}
			for k := range subset.Addresses {
				ready = append(ready, hostPort(subset.Addresses[k].IP, subset.Ports[j].Port))
			}
		}
	}
	return ready
}

func hostPort(host string, port int32) string { return net.JoinHostPort(host, strconv.Itoa(int(port))) }
