package core

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mainstay.dev/mainstay/internal/apis/builtin"
	"mainstay.dev/mainstay/internal/feature"
)

// mergeLabelKeys converts the matchLabelKeys and mismatchLabelKeys of a new pod to requirements of the
// corresponding label selectors. The requirements contain the values of the pod's labels. The scheduler
// therefore needs to evaluate only selectors.
func mergeLabelKeys(op *builtin.Operation, pod *corev1.Pod) {
	for i := range pod.Spec.TopologySpreadConstraints {
		if c := &pod.Spec.TopologySpreadConstraints[i]; op.Env.Gates.Enabled(feature.MatchLabelKeysInPodTopologySpreadSelectorMerge) {
			addLabelKeys(c.LabelSelector, pod.Labels, c.MatchLabelKeys, metav1.LabelSelectorOpIn)
		}
	}
	affinity := pod.Spec.Affinity
	if affinity == nil {
		return
	}
	if a := affinity.PodAffinity; a != nil {
		mergeTermKeys(pod.Labels, a.RequiredDuringSchedulingIgnoredDuringExecution, a.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	if a := affinity.PodAntiAffinity; a != nil {
		mergeTermKeys(pod.Labels, a.RequiredDuringSchedulingIgnoredDuringExecution, a.PreferredDuringSchedulingIgnoredDuringExecution)
	}
}

func mergeTermKeys(labels map[string]string, required []corev1.PodAffinityTerm, preferred []corev1.WeightedPodAffinityTerm) {
	merge := func(term *corev1.PodAffinityTerm) {
		addLabelKeys(term.LabelSelector, labels, term.MatchLabelKeys, metav1.LabelSelectorOpIn)
		addLabelKeys(term.LabelSelector, labels, term.MismatchLabelKeys, metav1.LabelSelectorOpNotIn)
	}
	for i := range required {
		merge(&required[i])
	}
	for i := range preferred {
		merge(&preferred[i].PodAffinityTerm)
	}
}

// addLabelKeys adds a requirement to selector for each key that labels contains. A nil selector is not
// changed, because it matches no object.
func addLabelKeys(selector *metav1.LabelSelector, labels map[string]string, keys []string, operator metav1.LabelSelectorOperator) {
	if selector == nil {
		return
	}
	for _, key := range keys {
		if value, ok := labels[key]; ok {
			selector.MatchExpressions = append(selector.MatchExpressions, metav1.LabelSelectorRequirement{
				Key: key, Operator: operator, Values: []string{value},
			})
		}
	}
}
