// Package coordination declares the resources of coordination.k8s.io.
//
// Imports: apis/builtin, apis/builtin/validation, feature.
package coordination

import (
	coordinationv1 "k8s.io/api/coordination/v1"

	"mainstay.dev/mainstay/apis/builtin"
)

// V1 is coordination.k8s.io/v1.
func V1() builtin.Group {
	return builtin.Group{GroupVersion: coordinationv1.SchemeGroupVersion, Resources: []builtin.Entry{
		builtin.Resource(builtin.Row[coordinationv1.Lease]{
			Name: "leases", Kind: "Lease", Namespaced: true, AnyFinalizer: true, CreateOnUpdate: true, RequireResourceVersion: true,
			Prepare: prepareLease, PrepareUpdate: prepareLeaseUpdate, Validate: validateLease,
			Columns: leaseColumns(),
		}),
	}}
}
