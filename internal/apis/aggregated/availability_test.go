package aggregated

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	apidiscovery "k8s.io/api/apidiscovery/v2"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"mainstay.dev/mainstay/internal/egress"
)

func TestNames(t *testing.T) {
	t.Parallel()
	for name, gv := range map[string]schema.GroupVersion{
		"v1.": {Version: "v1"}, "v1beta1.metrics.k8s.io": {Group: "metrics.k8s.io", Version: "v1beta1"},
	} {
		if got := groupVersionOf(name); got != gv || nameOf(gv) != name {
			t.Errorf("%s: parsed as %v and formatted as %s, want %v", name, got, nameOf(gv), gv)
		}
	}
}

func TestAggregateResources(t *testing.T) {
	t.Parallel()
	gv := schema.GroupVersion{Group: "example.com", Version: "v1"}
	got := aggregateResources(gv, []metav1.APIResource{
		{Name: "trees/scale", Kind: "Scale", Group: "autoscaling", Version: "v1", Namespaced: true, Verbs: metav1.Verbs{"get"}},
		{Name: "apples", SingularName: "apple", Kind: "Apple", Verbs: metav1.Verbs{"list"}, ShortNames: []string{"ap"}},
		{Name: "apples/status", Kind: "Apple", Verbs: metav1.Verbs{"update"}},
	})
	apple := &metav1.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Apple"}
	want := []apidiscovery.APIResourceDiscovery{
		{Resource: "trees", Scope: apidiscovery.ScopeNamespace, Subresources: []apidiscovery.APISubresourceDiscovery{{
			Subresource: "scale", ResponseKind: &metav1.GroupVersionKind{Group: "autoscaling", Version: "v1", Kind: "Scale"}, Verbs: metav1.Verbs{"get"},
		}}},
		{
			Resource: "apples", Scope: apidiscovery.ScopeCluster, SingularResource: "apple", ResponseKind: apple, Verbs: metav1.Verbs{"list"}, ShortNames: []string{"ap"},
			Subresources: []apidiscovery.APISubresourceDiscovery{{Subresource: "status", ResponseKind: apple, Verbs: metav1.Verbs{"update"}}},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// cluster is an egress.Cluster with at most one Service and its endpoints.
type cluster struct {
	service   *corev1.Service
	slices    []*discoveryv1.EndpointSlice
	endpoints *corev1.Endpoints
	err       error
}

func (c cluster) Service(_ context.Context, _, name string) (*corev1.Service, error) {
	if c.service == nil && c.err == nil {
		return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "service"}, name)
	}
	return c.service, c.err
}

func (c cluster) EndpointSlices(context.Context, string, string) ([]*discoveryv1.EndpointSlice, error) {
	return c.slices, nil
}

func (c cluster) Endpoints(_ context.Context, _, name string) (*corev1.Endpoints, error) {
	if c.endpoints == nil {
		return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "endpoints"}, name)
	}
	return c.endpoints, nil
}

// nowhere is a resolver that finds no Service.
type nowhere struct{}

func (nowhere) Resolve(context.Context, egress.Service) (string, error) {
	return "", errors.New("there is none")
}

func TestCheckAvailability(t *testing.T) {
	t.Parallel()
	port, no := int32(8443), false
	service := func(kind corev1.ServiceType, number int32) *corev1.Service {
		return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "s"}, Spec: corev1.ServiceSpec{Type: kind, Ports: []corev1.ServicePort{{Name: "web", Port: number}}}}
	}
	slice := func(name string, ready *bool) []*discoveryv1.EndpointSlice {
		return []*discoveryv1.EndpointSlice{{
			Ports:     []discoveryv1.EndpointPort{{Name: &name, Port: &port}},
			Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"192.0.2.1"}, Conditions: discoveryv1.EndpointConditions{Ready: ready}}},
		}}
	}
	tests := []struct {
		name    string
		cluster cluster
		want    availability
	}{
		{"no service", cluster{}, unavailable("ServiceNotFound", `service/s in "a" is not present`)},
		{"access error", cluster{err: errors.New("no disk")}, unknown("ServiceAccessError", `service/s in "a" cannot be checked due to: no disk`)},
		{"another port", cluster{service: service(corev1.ServiceTypeClusterIP, 80)}, unavailable("ServicePortError", `service/s in "a" is not listening on port 443`)},
		{"no endpoints", cluster{service: service(corev1.ServiceTypeClusterIP, 443)}, unavailable("EndpointsNotFound", `cannot find endpointslices for service/s in "a"`)},
		{"no ready endpoint", cluster{service: service(corev1.ServiceTypeClusterIP, 443), slices: slice("web", &no)},
			unavailable("MissingEndpoints", `endpointslices for service/s in "a" have no addresses with port name "web"`)},
		{"port with another name", cluster{service: service(corev1.ServiceTypeClusterIP, 443), slices: slice("metrics", nil)},
			unavailable("MissingEndpoints", `endpointslices for service/s in "a" have no addresses with port name "web"`)},
		{"not reachable", cluster{service: service(corev1.ServiceTypeClusterIP, 443), slices: slice("web", nil)},
			unavailable("FailedDiscoveryCheck", "failing or missing response from https://s.a.svc:443/apis/example.com/v1: find service a/s:443: there is none")},
		{"external name", cluster{service: service(corev1.ServiceTypeExternalName, 80)},
			unavailable("FailedDiscoveryCheck", "failing or missing response from https://s.a.svc:443/apis/example.com/v1: find service a/s:443: there is none")},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := &Source{config: Config{Cluster: tt.cluster, Resolver: nowhere{}}}
			r := &registration{
				gv:     schema.GroupVersion{Group: "example.com", Version: "v1"},
				server: s.newServer(address{service: egress.Service{Namespace: "a", Name: "s", Port: 443}}),
			}
			if diff := cmp.Diff(tt.want, s.checkAvailability(t.Context(), r), cmp.AllowUnexported(availability{})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
