package coordination

import (
	"time"

	coordinationv1beta1 "k8s.io/api/coordination/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mainstay.dev/mainstay/internal/apis/builtin"
)

func candidateColumns() *builtin.Columns[*coordinationv1beta1.LeaseCandidate] {
	return &builtin.Columns[*coordinationv1beta1.LeaseCandidate]{
		Definitions: []metav1.TableColumnDefinition{
			builtin.NameColumn(),
			builtin.Column("LeaseName", "string", coordinationv1beta1.LeaseCandidateSpec{}.SwaggerDoc()["leaseName"]),
			builtin.Column("BinaryVersion", "string", ""),
			builtin.Column("EmulationVersion", "string", ""),
			builtin.AgeColumn(),
		},
		Cells: func(c *coordinationv1beta1.LeaseCandidate, now time.Time) []any {
			return []any{c.Name, c.Spec.LeaseName, c.Spec.BinaryVersion, c.Spec.EmulationVersion, builtin.Age(c.CreationTimestamp, now)}
		},
	}
}
