package scheduling

import (
	"time"

	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mainstay.dev/mainstay/internal/apis/builtin"
)

func podGroupColumns() *builtin.Columns[*schedulingv1beta1.PodGroup] {
	return &builtin.Columns[*schedulingv1beta1.PodGroup]{
		Definitions: []metav1.TableColumnDefinition{
			builtin.NameColumn(),
			builtin.Column("Policy", "string", schedulingv1beta1.PodGroupSpec{}.SwaggerDoc()["schedulingPolicy"]),
			builtin.Column("Workload", "string", "Name of the referenced Workload object"),
			builtin.Column("Status", "string", "Status of the PodGroup"),
			builtin.AgeColumn(),
		},
		Cells: func(group *schedulingv1beta1.PodGroup, now time.Time) []any {
			workload := builtin.None
			if ref := group.Spec.WorkloadRef; ref != nil {
				workload = ref.WorkloadName
			}
			return []any{
				group.Name, policy(group.Spec.SchedulingPolicy.Gang != nil), workload, podGroupState(group.Status.Conditions),
				builtin.Age(group.CreationTimestamp, now),
			}
		},
	}
}

func policy(gang bool) string {
	if gang {
		return "Gang"
	}
	return "Basic"
}

// podGroupState returns the reason of a disruption or, if there is none, whether the group was
// scheduled.
func podGroupState(conditions []metav1.Condition) string {
	state := "Pending"
	for i := range conditions {
		switch c := &conditions[i]; c.Type {
		case schedulingv1beta1.DisruptionTarget:
			if c.Status == metav1.ConditionTrue {
				return c.Reason
			}
		case schedulingv1beta1.PodGroupInitiallyScheduled:
			state = "Unschedulable"
			if c.Status == metav1.ConditionTrue {
				state = "Scheduled"
			}
		}
	}
	return state
}

func compositePodGroupColumns() *builtin.Columns[*schedulingv1alpha3.CompositePodGroup] {
	return &builtin.Columns[*schedulingv1alpha3.CompositePodGroup]{
		Definitions: []metav1.TableColumnDefinition{
			builtin.NameColumn(),
			builtin.Column("Policy", "string", schedulingv1alpha3.CompositePodGroupSpec{}.SwaggerDoc()["schedulingPolicy"]),
			builtin.Column("Workload", "string", "Name of the referenced Workload object"),
			builtin.AgeColumn(),
		},
		Cells: func(group *schedulingv1alpha3.CompositePodGroup, now time.Time) []any {
			workload := builtin.None
			if ref := group.Spec.WorkloadRef; ref != nil {
				workload = ref.WorkloadName
			}
			return []any{group.Name, policy(group.Spec.SchedulingPolicy.Gang != nil), workload, builtin.Age(group.CreationTimestamp, now)}
		},
	}
}
