package plugin

import (
	corev1 "k8s.io/api/core/v1"

	"mainstay.dev/mainstay/internal/apis/builtin/podspec"
)

// podRequests returns what a pod asks for, by itself or by its containers.
func podRequests(spec *corev1.PodSpec) corev1.ResourceList {
	total := podspec.TotalRequests(spec)
	if spec.Resources != nil {
		override(total, spec.Resources.Requests)
	}
	return total
}

// podLimits returns what a pod may have, by itself or by its containers.
func podLimits(spec *corev1.PodSpec) corev1.ResourceList {
	total := podspec.TotalLimits(spec)
	if spec.Resources != nil {
		override(total, spec.Resources.Limits)
	}
	return total
}

// override puts what a pod says of itself in the place of what its containers
// say. As in kube-apiserver that holds for cpu and memory alone.
func override(total, own corev1.ResourceList) {
	for _, name := range [...]corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		if quantity, ok := own[name]; ok {
			total[name] = quantity
		}
	}
}
