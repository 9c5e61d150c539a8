// Package coordination declares the resources of coordination.k8s.io.
package coordination

import (
	coordinationv1 "k8s.io/api/coordination/v1"
	coordinationv1beta1 "k8s.io/api/coordination/v1beta1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"mainstay.dev/mainstay/internal/apis/builtin"
	"mainstay.dev/mainstay/internal/feature"
)

// V1 is coordination.k8s.io/v1.
func V1() builtin.Group {
	return builtin.Group{GroupVersion: coordinationv1.SchemeGroupVersion, Resources: []builtin.Entry{
		builtin.Resource(builtin.Row[coordinationv1.Lease]{
			Name: "leases", Kind: "Lease", Namespaced: true, AnyFinalizer: true, CreateOnUpdate: true, RequireResourceVersion: true,
			Gated:    []builtin.Gated[coordinationv1.Lease]{{Gate: feature.CoordinatedLeaderElection, Fields: leaseElections}},
			Validate: validateLease, Columns: leaseColumns(),
		}),
	}}
}

// V1Beta1 is coordination.k8s.io/v1beta1, and v1alpha2 besides.
func V1Beta1() builtin.Group {
	return builtin.Group{GroupVersion: coordinationv1beta1.SchemeGroupVersion, Resources: []builtin.Entry{
		builtin.Resource(builtin.Row[coordinationv1beta1.LeaseCandidate]{
			Name: "leasecandidates", Kind: "LeaseCandidate", Namespaced: true, CreateOnUpdate: true, RequireResourceVersion: true,
			Gate: feature.CoordinatedLeaderElection, Deprecated: 36, ValidateName: candidateName,
			Validate: validateCandidate, Columns: candidateColumns(),
			Also: []builtin.Also{{GroupVersion: schema.GroupVersion{Group: coordinationv1.GroupName, Version: "v1alpha2"}, Deprecated: 35}},
		}),
	}}
}
