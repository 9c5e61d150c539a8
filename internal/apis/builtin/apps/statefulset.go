package apps

import (
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mainstay.dev/mainstay/internal/apis/builtin"
	"mainstay.dev/mainstay/internal/apis/builtin/podspec"
)

func statefulSetWarnings(_ *builtin.Operation, set, old *appsv1.StatefulSet) []string {
	warnings := templateWarnings(set, old, func(set *appsv1.StatefulSet) *corev1.PodTemplateSpec { return &set.Spec.Template })
	if limit := set.Spec.RevisionHistoryLimit; limit != nil && *limit < 0 {
		warnings = append(warnings, "spec.revisionHistoryLimit: a negative value retains all historical revisions; a value >= 0 is recommended")
	}
	for i := range set.Spec.VolumeClaimTemplates {
		warnings = append(warnings, podspec.ClaimWarnings(fmt.Sprintf("spec.volumeClaimTemplates[%d]", i), &set.Spec.VolumeClaimTemplates[i].Spec)...)
	}
	return warnings
}

func statefulSetScale() builtin.Subresource {
	return builtin.ScaleSubresource(builtin.Scale[*appsv1.StatefulSet]{
		Replicas: func(s *appsv1.StatefulSet) **int32 { return &s.Spec.Replicas },
		Observed: func(s *appsv1.StatefulSet) int32 { return s.Status.Replicas },
		Selector: func(s *appsv1.StatefulSet) (string, error) { return selectorText(s.Spec.Selector) },
	})
}

func statefulSetColumns() *builtin.Columns[*appsv1.StatefulSet] {
	definitions := []metav1.TableColumnDefinition{
		builtin.NameColumn(),
		builtin.Column("Ready", "string", readyDoc),
		builtin.AgeColumn(),
	}
	return &builtin.Columns[*appsv1.StatefulSet]{
		Definitions: append(definitions, builtin.TemplateColumns()...),
		Cells: func(s *appsv1.StatefulSet, now time.Time) []any {
			names, images := builtin.TemplateCells(&s.Spec.Template)
			return []any{
				s.Name, fmt.Sprintf("%d/%d", s.Status.ReadyReplicas, number(s.Spec.Replicas)),
				builtin.Age(s.CreationTimestamp, now), names, images,
			}
		},
	}
}
