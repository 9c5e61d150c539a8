// Package lifecycle declares the resources of lifecycle.k8s.io, which request the eviction of pods
// from nodes. Controllers perform the evictions.
package lifecycle

import (
	lifecyclev1alpha1 "k8s.io/api/lifecycle/v1alpha1"

	"mainstay.dev/mainstay/internal/apis/builtin"
	"mainstay.dev/mainstay/internal/feature"
)

// V1Alpha1 is lifecycle.k8s.io/v1alpha1.
func V1Alpha1() builtin.Group {
	return builtin.Group{GroupVersion: lifecyclev1alpha1.SchemeGroupVersion, Resources: []builtin.Entry{
		builtin.Resource(builtin.Row[lifecyclev1alpha1.EvictionRequest]{
			Name: "evictionrequests", Kind: "EvictionRequest", Namespaced: true, Gate: feature.EvictionRequestAPI,
			Status: true, StatusKeeps: []string{"metadata"}, Generation: true, RequireResourceVersion: true,
			Validate: validateRequest, ValidateStatus: validateRequestStatus, Columns: requestColumns(),
		}),
		builtin.Resource(builtin.Row[lifecyclev1alpha1.Eviction]{
			Name: "evictions", Kind: "Eviction", Namespaced: true, Gate: feature.EvictionRequestAPI,
			Status: true, StatusKeeps: []string{"metadata"}, Generation: true, RequireResourceVersion: true,
			Validate: validateEviction, ValidateStatus: validateEvictionStatus, Columns: evictionColumns(),
		}),
	}}
}
