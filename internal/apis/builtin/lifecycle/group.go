// Package lifecycle declares the resources of lifecycle.k8s.io, with which clients request the eviction of pods
// from nodes. Controllers perform the evictions.
package lifecycle

import (
	lifecyclev1alpha1 "k8s.io/api/lifecycle/v1alpha1"

	"mainstay.dev/mainstay/internal/apis/builtin"
	"mainstay.dev/mainstay/internal/feature"
)

// V1Alpha1 returns the group version lifecycle.k8s.io/v1alpha1.
func V1Alpha1() builtin.Group {
	return builtin.Group{GroupVersion: lifecyclev1alpha1.SchemeGroupVersion, Resources: []builtin.Entry{
		builtin.Resource(builtin.Row[*lifecyclev1alpha1.EvictionRequest]{
			Names: builtin.Names{Plural: "evictionrequests", Kind: "EvictionRequest"}, Namespaced: true, Gate: feature.EvictionRequestAPI,
			WritePolicy: builtin.WritePolicy{Generation: true, RequireResourceVersion: true},
			Strategy:    builtin.Strategy[*lifecyclev1alpha1.EvictionRequest]{Validate: validateRequest},
			Status:      &builtin.Status[*lifecyclev1alpha1.EvictionRequest]{PreservedMetadata: []string{"metadata"}, Validate: validateRequestStatus},
			Columns:     requestColumns(),
		}),
		builtin.Resource(builtin.Row[*lifecyclev1alpha1.Eviction]{
			Names: builtin.Names{Plural: "evictions", Kind: "Eviction"}, Namespaced: true, Gate: feature.EvictionRequestAPI,
			WritePolicy: builtin.WritePolicy{Generation: true, RequireResourceVersion: true},
			Strategy:    builtin.Strategy[*lifecyclev1alpha1.Eviction]{Validate: validateEviction},
			Status:      &builtin.Status[*lifecyclev1alpha1.Eviction]{PreservedMetadata: []string{"metadata"}, Validate: validateEvictionStatus},
			Columns:     evictionColumns(),
		}),
	}}
}
