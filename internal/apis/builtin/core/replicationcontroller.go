package core

import (
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

	"mainstay.dev/mainstay/internal/apis/builtin"
)

func podTemplatePods(template *corev1.PodTemplate) *corev1.PodSpec { return &template.Template.Spec }

// replicationControllerPods returns the pod spec of the template. If the controller has no template, which
// validation rejects, it returns nil.
func replicationControllerPods(rc *corev1.ReplicationController) *corev1.PodSpec {
	if rc.Spec.Template == nil {
		return nil
	}
	return &rc.Spec.Template.Spec
}

func replicationControllerFields(rc *corev1.ReplicationController) fields.Set {
	return fields.Set{"status.replicas": strconv.Itoa(int(rc.Status.Replicas))}
}

func replicationControllerScale() builtin.Scale[*corev1.ReplicationController] {
	return builtin.Scale[*corev1.ReplicationController]{
		Replicas: func(rc *corev1.ReplicationController) **int32 { return &rc.Spec.Replicas },
		Observed: func(rc *corev1.ReplicationController) int32 { return rc.Status.Replicas },
		Selector: func(rc *corev1.ReplicationController) (string, error) {
			return labels.Set(rc.Spec.Selector).String(), nil
		},
	}
}

func replicationControllerColumns() *builtin.Columns[*corev1.ReplicationController] {
	spec, status := corev1.ReplicationControllerSpec{}.SwaggerDoc(), corev1.ReplicationControllerStatus{}.SwaggerDoc()
	definitions := []metav1.TableColumnDefinition{
		builtin.NameColumn(),
		builtin.Column("Desired", "integer", spec["replicas"]),
		builtin.Column("Current", "integer", status["replicas"]),
		builtin.Column("Ready", "integer", status["readyReplicas"]),
		builtin.AgeColumn(),
	}
	definitions = append(definitions, builtin.TemplateColumns()...)
	definitions = append(definitions, builtin.WideColumn("Selector", "string", spec["selector"]))
	return &builtin.Columns[*corev1.ReplicationController]{
		Definitions: definitions,
		Cells: func(rc *corev1.ReplicationController, now time.Time) []any {
			var desired int64
			if rc.Spec.Replicas != nil {
				desired = int64(*rc.Spec.Replicas)
			}
			names, images := "", ""
			if rc.Spec.Template != nil {
				names, images = builtin.TemplateCells(rc.Spec.Template)
			}
			return []any{
				rc.Name, desired, int64(rc.Status.Replicas), int64(rc.Status.ReadyReplicas),
				builtin.Age(rc.CreationTimestamp, now), names, images, labelText(rc.Spec.Selector),
			}
		},
	}
}

func podTemplateColumns() *builtin.Columns[*corev1.PodTemplate] {
	definitions := []metav1.TableColumnDefinition{builtin.NameColumn()}
	for _, column := range builtin.TemplateColumns() {
		column.Priority = 0
		definitions = append(definitions, column)
	}
	definitions = append(definitions, builtin.Column("Pod Labels", "string", "The labels for the pod template."))
	return &builtin.Columns[*corev1.PodTemplate]{
		Definitions: definitions,
		Cells: func(template *corev1.PodTemplate, _ time.Time) []any {
			names, images := builtin.TemplateCells(&template.Template)
			return []any{template.Name, names, images, labelText(template.Template.Labels)}
		},
	}
}
