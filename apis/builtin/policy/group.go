// Package policy declares the resources of the policy group.
//
// Imports: apis/builtin.
package policy

import (
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/validation/path"

	"mainstay.dev/mainstay/apis/builtin"
)

// V1 is policy/v1.
func V1() builtin.Group {
	return builtin.Group{GroupVersion: policyv1.SchemeGroupVersion, Resources: []builtin.Entry{
		builtin.Resource(builtin.Row[policyv1.PodDisruptionBudget]{
			Name: "poddisruptionbudgets", Kind: "PodDisruptionBudget", Namespaced: true, ShortNames: []string{"pdb"},
			Status: true, Generation: true, RequireResourceVersion: true,
			ValidateName: path.ValidatePathSegmentName,
		}),
	}}
}
