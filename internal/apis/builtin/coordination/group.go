// Package coordination declares the resources of coordination.k8s.io.
package coordination

import (
	coordinationv1 "k8s.io/api/coordination/v1"
	coordinationv1beta1 "k8s.io/api/coordination/v1beta1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"mainstay.dev/mainstay/internal/apis/builtin"
	"mainstay.dev/mainstay/internal/feature"
)

// V1 returns the group version coordination.k8s.io/v1.
func V1() builtin.Group {
	return builtin.Group{GroupVersion: coordinationv1.SchemeGroupVersion, Resources: []builtin.Entry{
		builtin.Resource(builtin.Row[*coordinationv1.Lease]{
			Names: builtin.Names{Plural: "leases", Kind: "Lease"}, Namespaced: true,
			WritePolicy: builtin.WritePolicy{AllowCreateOnUpdate: true, RequireResourceVersion: true, AllowAnyFinalizer: true},
			Strategy: builtin.Strategy[*coordinationv1.Lease]{
				GatedFields: []builtin.GatedFields[*coordinationv1.Lease]{{Gate: feature.CoordinatedLeaderElection, Visit: leaseElections}},
				Validate:    validateLease,
			},
			Columns: leaseColumns(),
		}),
	}}
}

// V1Beta1 returns the group version coordination.k8s.io/v1beta1. Its resources are also served in v1alpha2.
func V1Beta1() builtin.Group {
	return builtin.Group{GroupVersion: coordinationv1beta1.SchemeGroupVersion, Resources: []builtin.Entry{
		builtin.Resource(builtin.Row[*coordinationv1beta1.LeaseCandidate]{
			Names: builtin.Names{Plural: "leasecandidates", Kind: "LeaseCandidate"}, Namespaced: true, Gate: feature.CoordinatedLeaderElection,
			Versions: builtin.Versions{
				Deprecated: 36,
				Others:     []builtin.Version{{GroupVersion: schema.GroupVersion{Group: coordinationv1.GroupName, Version: "v1alpha2"}, Deprecated: 35}},
			},
			WritePolicy: builtin.WritePolicy{AllowCreateOnUpdate: true, RequireResourceVersion: true, ValidateName: candidateName},
			Strategy:    builtin.Strategy[*coordinationv1beta1.LeaseCandidate]{Validate: validateCandidate},
			Columns:     candidateColumns(),
		}),
	}}
}
