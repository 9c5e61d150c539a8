package apps

import (
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mainstay.dev/mainstay/internal/apis/builtin"
)

func replicaSetScale() builtin.Subresource {
	return builtin.ScaleSubresource(builtin.Scale[*appsv1.ReplicaSet]{
		Replicas: func(rs *appsv1.ReplicaSet) **int32 { return &rs.Spec.Replicas },
		Observed: func(rs *appsv1.ReplicaSet) int32 { return rs.Status.Replicas },
		Selector: func(rs *appsv1.ReplicaSet) (string, error) { return selectorText(rs.Spec.Selector) },
	})
}

func replicaSetColumns() *builtin.Columns[*appsv1.ReplicaSet] {
	spec, status := appsv1.ReplicaSetSpec{}.SwaggerDoc(), appsv1.ReplicaSetStatus{}.SwaggerDoc()
	definitions := []metav1.TableColumnDefinition{
		builtin.NameColumn(),
		builtin.Column("Desired", "integer", spec["replicas"]),
		builtin.Column("Current", "integer", status["replicas"]),
		builtin.Column("Ready", "integer", status["readyReplicas"]),
		builtin.AgeColumn(),
	}
	definitions = append(definitions, builtin.TemplateColumns()...)
	return &builtin.Columns[*appsv1.ReplicaSet]{
		Definitions: append(definitions, builtin.WideColumn("Selector", "string", spec["selector"])),
		Cells: func(rs *appsv1.ReplicaSet, now time.Time) []any {
			names, images := builtin.TemplateCells(&rs.Spec.Template)
			return []any{
				rs.Name, int64(number(rs.Spec.Replicas)), int64(rs.Status.Replicas), int64(rs.Status.ReadyReplicas),
				builtin.Age(rs.CreationTimestamp, now), names, images, metav1.FormatLabelSelector(rs.Spec.Selector),
			}
		},
	}
}
