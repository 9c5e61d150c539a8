package plugin

import (
	corev1 "k8s.io/api/core/v1"

	"mainstay.dev/mainstay/internal/apis/builtin/podspec"
)

// podRequests returns the requests of a pod: pod-level ones or those of its containers.
func podRequests(spec *corev1.PodSpec) corev1.ResourceList {
	total := podspec.TotalRequests(spec)
	if spec.Resources != nil {
		override(total, spec.Resources.Requests)
	}
	return total
}

// podLimits returns the limits of a pod: pod-level ones or those of its containers.
func podLimits(spec *corev1.PodSpec) corev1.ResourceList {
	total := podspec.TotalLimits(spec)
	if spec.Resources != nil {
		override(total, spec.Resources.Limits)
	}
	return total
}

// override replaces the containers' totals with pod-level resources. As in kube-apiserver, it does
// so for cpu and memory only.
func override(total, own corev1.ResourceList) {
	for _, name := range [...]corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		if quantity, ok := own[name]; ok {
			total[name] = quantity
		}
	}
}
