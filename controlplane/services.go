package controlplane

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/codec"
	"mainstay.dev/mainstay/rest"
)

// find returns a resource, nil if there is none.
type find func(gv schema.GroupVersion, name, subresource string) *rest.Resource

// cluster implements egress.Cluster with this server's resources.
type cluster struct{ find find }

// Service implements egress.Cluster.
func (c cluster) Service(ctx context.Context, namespace, name string) (*corev1.Service, error) {
	service, err := readShared[*corev1.Service](ctx, c.find, corev1.SchemeGroupVersion.WithResource("services"), namespace, name)
	if apierrors.IsNotFound(err) {
		return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "service"}, name) // as kube-apiserver says it of services it looks for
	}
	return service, err
}

// Endpoints implements egress.Cluster.
func (c cluster) Endpoints(ctx context.Context, namespace, name string) (*corev1.Endpoints, error) {
	return readShared[*corev1.Endpoints](ctx, c.find, corev1.SchemeGroupVersion.WithResource("endpoints"), namespace, name)
}

// EndpointSlices implements egress.Cluster.
func (c cluster) EndpointSlices(ctx context.Context, namespace, service string) ([]*discoveryv1.EndpointSlice, error) {
	lister, ok := storageOf[rest.Lister](c.find, discoveryv1.SchemeGroupVersion.WithResource("endpointslices"))
	if !ok {
		return nil, fmt.Errorf("endpointslices cannot be listed")
	}
	list, err := lister.List(ctx, namespace, rest.ListOptions{Labels: labels.SelectorFromSet(labels.Set{discoveryv1.LabelServiceName: service})})
	if err != nil {
		return nil, err
	}
	var found []*discoveryv1.EndpointSlice
	for record, err := range list.Items {
		if err != nil {
			return nil, err
		}
		slice, err := sharedAs[*discoveryv1.EndpointSlice](record)
		if err != nil {
			return nil, err
		}
		found = append(found, slice)
	}
	return found, nil
}

// storageOf returns the storage of a resource as a T; false if it is none.
func storageOf[T any](find find, gvr schema.GroupVersionResource) (T, bool) {
	var none T
	resource := find(gvr.GroupVersion(), gvr.Resource, "")
	if resource == nil {
		return none, false
	}
	storage, ok := resource.Storage.(T)
	return storage, ok
}

// readShared returns an object, which is shared and must not be changed.
func readShared[T codec.Object](ctx context.Context, find find, gvr schema.GroupVersionResource, namespace, name string) (T, error) {
	var none T
	getter, ok := storageOf[rest.Getter](find, gvr)
	if !ok {
		return none, fmt.Errorf("%s cannot be read", gvr.Resource)
	}
	record, err := getter.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, metav1.GetOptions{})
	if err != nil {
		return none, err
	}
	return sharedAs[T](record)
}

func sharedAs[T codec.Object](record *codec.Record) (T, error) {
	var none T
	obj, err := record.Shared()
	if err != nil {
		return none, err
	}
	typed, ok := obj.(T)
	if !ok {
		return none, fmt.Errorf("%s is a %T", record.Name(), obj)
	}
	return typed, nil
}
