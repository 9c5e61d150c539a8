package plugin

import (
	corev1 "k8s.io/api/core/v1"

	"mainstay.dev/mainstay/internal/apis/builtin/podspec"
)

// podRequests returns the sums of the containers' requests. Pod-level requests for cpu and memory replace the
// sums.
func podRequests(spec *corev1.PodSpec) corev1.ResourceList {
	total := podspec.TotalRequests(spec)
	if spec.Resources != nil {
		override(total, spec.Resources.Requests)
	}
	return total
}

// podLimits returns the sums of the containers' limits. Pod-level limits for cpu and memory replace the sums.
func podLimits(spec *corev1.PodSpec) corev1.ResourceList {
	total := podspec.TotalLimits(spec)
	if spec.Resources != nil {
		override(total, spec.Resources.Limits)
	}
	return total
}

// override replaces the sums of the containers with pod-level resources. As in kube-apiserver, it replaces only
// cpu and memory.
func override(total, own corev1.ResourceList) {
	for _, name := range [...]corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		if quantity, ok := own[name]; ok {
			total[name] = quantity
		}
	}
}
