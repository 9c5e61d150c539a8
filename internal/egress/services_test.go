package egress

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// fixed is a Cluster with fixed objects, all of them in the namespace a.
type fixed struct {
	services  map[string]corev1.ServiceSpec
	slices    map[string][]*discoveryv1.EndpointSlice
	endpoints map[string]*corev1.Endpoints
}

func (f fixed) Service(_ context.Context, namespace, name string) (*corev1.Service, error) {
	spec, ok := f.services[name]
	if !ok || namespace != "a" {
		return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "service"}, name)
	}
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: spec}, nil
}

func (f fixed) EndpointSlices(_ context.Context, _, service string) ([]*discoveryv1.EndpointSlice, error) {
	return f.slices[service], nil
}

func (f fixed) Endpoints(_ context.Context, _, name string) (*corev1.Endpoints, error) {
	if e, ok := f.endpoints[name]; ok {
		return e, nil
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "endpoints"}, name)
}

func slice(family discoveryv1.AddressType, port string, number int32, addresses map[string]*bool) *discoveryv1.EndpointSlice {
	s := &discoveryv1.EndpointSlice{AddressType: family, Ports: []discoveryv1.EndpointPort{{Name: &port, Port: &number}}}
	for address, ready := range addresses {
		s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{Addresses: []string{address}, Conditions: discoveryv1.EndpointConditions{Ready: ready}})
	}
	return s
}

func TestServices(t *testing.T) {
	t.Parallel()
	yes, no := true, false
	ports := []corev1.ServicePort{{Name: "web", Port: 443}, {Name: "metrics", Port: 9090}}
	cluster := fixed{
		services: map[string]corev1.ServiceSpec{
			"plain":    {Type: corev1.ServiceTypeClusterIP, ClusterIP: "10.0.0.7", Ports: ports},
			"six":      {Type: corev1.ServiceTypeClusterIP, ClusterIP: "fd00::7", Ports: ports},
			"headless": {Type: corev1.ServiceTypeClusterIP, ClusterIP: corev1.ClusterIPNone, Ports: ports},
			"empty":    {Type: corev1.ServiceTypeClusterIP, Ports: ports},
			"old":      {Type: corev1.ServiceTypeNodePort, Ports: ports},
			"dual":     {IPFamilies: []corev1.IPFamily{corev1.IPv6Protocol, corev1.IPv4Protocol}, Ports: ports},
			"outside":  {Type: corev1.ServiceTypeExternalName, ExternalName: "api.example.com"},
		},
		slices: map[string][]*discoveryv1.EndpointSlice{
			"plain":    {slice("IPv4", "web", 8443, map[string]*bool{"192.0.2.1": &yes})},
			"headless": {slice("IPv4", "metrics", 1, map[string]*bool{"192.0.2.9": nil}), slice("IPv4", "web", 8443, map[string]*bool{"192.0.2.2": nil, "192.0.2.3": &no})},
			"dual":     {slice("IPv4", "web", 1, map[string]*bool{"192.0.2.4": nil}), slice("IPv6", "web", 2, map[string]*bool{"2001:db8::4": nil})},
		},
		endpoints: map[string]*corev1.Endpoints{
			"headless": {Subsets: []corev1.EndpointSubset{{Addresses: []corev1.EndpointAddress{{IP: "192.0.2.99"}}, Ports: []corev1.EndpointPort{{Name: "web", Port: 1}}}}},
			"old": {Subsets: []corev1.EndpointSubset{{
				Addresses: []corev1.EndpointAddress{{IP: "192.0.2.5"}}, NotReadyAddresses: []corev1.EndpointAddress{{IP: "192.0.2.6"}},
				Ports: []corev1.EndpointPort{{Name: "metrics", Port: 1}, {Name: "web", Port: 6443}},
			}}},
		},
	}
	tests := []struct {
		name      string
		service   Service
		endpoints bool
		want, err string
	}{
		{"the cluster IP", Service{"a", "plain", 443}, false, "10.0.0.7:443", ""},
		{"an IPv6 cluster IP", Service{"a", "six", 9090}, false, "[fd00::7]:9090", ""},
		{"an endpoint instead of the cluster IP", Service{"a", "plain", 443}, true, "192.0.2.1:8443", ""},
		{"only ready endpoints of a headless service", Service{"a", "headless", 443}, false, "192.0.2.2:8443", ""},
		{"Endpoints if there are no EndpointSlices", Service{"a", "old", 443}, false, "192.0.2.5:6443", ""},
		{"the primary family", Service{"a", "dual", 443}, false, "[2001:db8::4]:2", ""},
		{"an external name", Service{"a", "outside", 8443}, false, "api.example.com:8443", ""},
		{"this server", Service{"default", "kubernetes", 443}, false, "127.0.0.1:6443", ""},
		{"no service", Service{"a", "none", 443}, false, "", `service "none" not found`},
		{"no port", Service{"a", "plain", 80}, false, "", `no service port 80 found for service "plain"`},
		{"no endpoints", Service{"a", "empty", 443}, false, "", `no endpoints available for service "empty"`},
		{"no endpoints for the port", Service{"a", "plain", 9090}, true, "", `no endpoints available for service "plain"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			services := &Services{Cluster: cluster, ToEndpoints: tt.endpoints, Self: "127.0.0.1:6443"}
			got, err := services.Resolve(t.Context(), tt.service)
			if tt.err != "" {
				if err == nil || err.Error() != tt.err {
					t.Fatalf("%v, want %q", err, tt.err)
				}
				return
			}
			if err != nil || got != tt.want {
				t.Errorf("%q, %v, want %q", got, err, tt.want)
			}
		})
	}
}
