package podspec

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// RoundUpQuantities rounds the quantities in list up to multiples of 0.001, the highest precision that
// Kubernetes supports. It modifies list.
func RoundUpQuantities(list corev1.ResourceList) {
	for name, quantity := range list {
		if exact := quantity.RoundUp(resource.Milli); !exact {
			list[name] = quantity
		}
	}
}

// RoundUpRequirements rounds up the quantities of requests and limits. r may be nil.
func RoundUpRequirements(r *corev1.ResourceRequirements) {
	if r != nil {
		RoundUpQuantities(r.Limits)
		RoundUpQuantities(r.Requests)
	}
}
