package coordination

import (
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mainstay.dev/mainstay/apis/builtin"
	"mainstay.dev/mainstay/feature"
)

// prepareLease drops what elections by the server are for, where that feature is off.
func prepareLease(op *builtin.Operation, lease *coordinationv1.Lease) {
	prepareLeaseUpdate(op, lease, &coordinationv1.Lease{})
}

func prepareLeaseUpdate(op *builtin.Operation, lease, old *coordinationv1.Lease) {
	if op.Env.Gates.Enabled(feature.CoordinatedLeaderElection) {
		return
	}
	if old.Spec.Strategy == nil {
		lease.Spec.Strategy = nil
	}
	if old.Spec.PreferredHolder == nil {
		lease.Spec.PreferredHolder = nil
	}
}

func leaseColumns() *builtin.Columns[coordinationv1.Lease] {
	return &builtin.Columns[coordinationv1.Lease]{
		Definitions: []metav1.TableColumnDefinition{
			builtin.NameColumn(),
			builtin.Column("Holder", "string", coordinationv1.LeaseSpec{}.SwaggerDoc()["holderIdentity"]),
			builtin.AgeColumn(),
		},
		Cells: func(lease *coordinationv1.Lease, now time.Time) []any {
			holder := ""
			if lease.Spec.HolderIdentity != nil {
				holder = *lease.Spec.HolderIdentity
			}
			return []any{lease.Name, holder, builtin.Age(lease.CreationTimestamp, now)}
		},
	}
}
