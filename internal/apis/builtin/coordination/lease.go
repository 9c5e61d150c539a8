package coordination

import (
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mainstay.dev/mainstay/internal/apis/builtin"
)

// leaseElections visits the fields that are used for coordinated leader election.
func leaseElections(u *builtin.FieldVisitor, lease *coordinationv1.Lease) {
	builtin.VisitField(u, &lease.Spec.Strategy)
	builtin.VisitField(u, &lease.Spec.PreferredHolder)
}

func leaseColumns() *builtin.Columns[*coordinationv1.Lease] {
	return &builtin.Columns[*coordinationv1.Lease]{
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
