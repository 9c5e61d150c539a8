package scheduling

import (
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"

	"mainstay.dev/mainstay/apis/builtin"
)

func defaultPriorityClass(class *schedulingv1.PriorityClass) {
	builtin.Fill(&class.PreemptionPolicy, corev1.PreemptLowerPriority)
}
