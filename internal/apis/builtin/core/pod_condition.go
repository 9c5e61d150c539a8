package core

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// podCondition returns the condition with the given type, or nil if the pod has no such condition.
func podCondition(pod *corev1.Pod, kind corev1.PodConditionType) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == kind {
			return c
		}
	}
	return nil
}

// setPodCondition adds or replaces a condition. Its transition time becomes now, unless the status is
// unchanged.
func setPodCondition(pod *corev1.Pod, condition corev1.PodCondition, now time.Time) {
	condition.LastTransitionTime = metav1.NewTime(now.Truncate(time.Second))
	old := podCondition(pod, condition.Type)
	if old == nil {
		pod.Status.Conditions = append(pod.Status.Conditions, condition)
		return
	}
	if old.Status == condition.Status {
		condition.LastTransitionTime = old.LastTransitionTime
	}
	*old = condition
}

func isTrue(condition *corev1.PodCondition) bool {
	return condition != nil && condition.Status == corev1.ConditionTrue
}
