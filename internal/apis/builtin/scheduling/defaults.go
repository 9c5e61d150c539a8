package scheduling

import (
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"

	"mainstay.dev/mainstay/internal/apis/builtin"
)

func defaultPriorityClass(class *schedulingv1.PriorityClass) {
	builtin.SetDefault(&class.PreemptionPolicy, corev1.PreemptLowerPriority)
}

func defaultPodGroup(group *schedulingv1beta1.PodGroup) {
	if group.Spec.DisruptionMode == nil {
		group.Spec.DisruptionMode = &schedulingv1beta1.DisruptionMode{Single: &schedulingv1beta1.SingleDisruptionMode{}}
	}
}

func defaultCompositePodGroup(group *schedulingv1alpha3.CompositePodGroup) {
	if group.Spec.DisruptionMode == nil {
		group.Spec.DisruptionMode = &schedulingv1alpha3.CompositeDisruptionMode{Single: &schedulingv1alpha3.SingleCompositeDisruptionMode{}}
	}
}
