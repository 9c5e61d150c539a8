package apps

import (
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mainstay.dev/mainstay/internal/apis/builtin"
	"mainstay.dev/mainstay/internal/apis/builtin/validation"
)

// deploymentChanged reports whether an update increments the generation. Changes of annotations do, because
// annotations describe a rollout.
func deploymentChanged(deployment, old *appsv1.Deployment) bool {
	return validation.Changed(deployment.Spec, old.Spec) ||
		validation.Changed(deployment.Annotations, old.Annotations)
}

func deploymentScale() builtin.Subresource {
	return builtin.ScaleSubresource(builtin.Scale[*appsv1.Deployment]{
		Replicas: func(d *appsv1.Deployment) **int32 { return &d.Spec.Replicas },
		Observed: func(d *appsv1.Deployment) int32 { return d.Status.Replicas },
		Selector: func(d *appsv1.Deployment) (string, error) { return selectorText(d.Spec.Selector) },
	})
}

func deploymentColumns() *builtin.Columns[*appsv1.Deployment] {
	spec, status := appsv1.DeploymentSpec{}.SwaggerDoc(), appsv1.DeploymentStatus{}.SwaggerDoc()
	definitions := []metav1.TableColumnDefinition{
		builtin.NameColumn(),
		builtin.Column("Ready", "string", readyDoc),
		builtin.Column("Up-to-date", "string", status["updatedReplicas"]),
		builtin.Column("Available", "string", status["availableReplicas"]),
		builtin.AgeColumn(),
	}
	definitions = append(definitions, builtin.TemplateColumns()...)
	return &builtin.Columns[*appsv1.Deployment]{
		Definitions: append(definitions, builtin.WideColumn("Selector", "string", spec["selector"])),
		Cells: func(d *appsv1.Deployment, now time.Time) []any {
			names, images := builtin.TemplateCells(&d.Spec.Template)
			selector, err := selectorText(d.Spec.Selector)
			if err != nil {
				selector = "<invalid>"
			}
			return []any{
				d.Name, fmt.Sprintf("%d/%d", d.Status.ReadyReplicas, number(d.Spec.Replicas)), int64(d.Status.UpdatedReplicas),
				int64(d.Status.AvailableReplicas), builtin.Age(d.CreationTimestamp, now), names, images, selector,
			}
		},
	}
}
