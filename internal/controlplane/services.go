package controlplane

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/loopback"
	"mainstay.dev/mainstay/internal/rest"
)

// cluster implements egress.Cluster with the resources of this control plane. Results are shared and
// must not be modified.
type cluster struct {
	services  *loopback.Client[*corev1.Service]
	endpoints *loopback.Client[*corev1.Endpoints]
	slices    *loopback.Client[*discoveryv1.EndpointSlice]
}

func newCluster(access *loopback.Access) *cluster {
	return &cluster{
		services:  loopback.For[*corev1.Service](access, corev1.SchemeGroupVersion.WithResource("services")),
		endpoints: loopback.For[*corev1.Endpoints](access, corev1.SchemeGroupVersion.WithResource("endpoints")),
		slices:    loopback.For[*discoveryv1.EndpointSlice](access, discoveryv1.SchemeGroupVersion.WithResource("endpointslices")),
	}
}

// Service implements egress.Cluster.
func (c *cluster) Service(ctx context.Context, namespace, name string) (*corev1.Service, error) {
	service, err := c.services.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name})
	if apierrors.IsNotFound(err) {
		return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "service"}, name) // kube-apiserver's message for missing services
	}
	return service, err
}

// Endpoints implements egress.Cluster.
func (c *cluster) Endpoints(ctx context.Context, namespace, name string) (*corev1.Endpoints, error) {
	return c.endpoints.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name})
}

// EndpointSlices implements egress.Cluster.
func (c *cluster) EndpointSlices(ctx context.Context, namespace, service string) ([]*discoveryv1.EndpointSlice, error) {
	var found []*discoveryv1.EndpointSlice
	selected := rest.ListOptions{Labels: labels.SelectorFromSet(labels.Set{discoveryv1.LabelServiceName: service})}
	for slice, err := range c.slices.List(ctx, namespace, selected) {
		if err != nil {
			return nil, err
		}
		found = append(found, slice)
	}
	return found, nil
}
