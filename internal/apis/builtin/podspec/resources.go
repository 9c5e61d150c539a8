package podspec

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// RoundUpQuantities rounds quantities up to thousandths, the finest there are.
func RoundUpQuantities(list corev1.ResourceList) {
	for name, quantity := range list {
		if exact := quantity.RoundUp(resource.Milli); !exact {
			list[name] = quantity
		}
	}
}

// RoundUpRequirements does it with requests and limits. The requirements may be nil.
func RoundUpRequirements(r *corev1.ResourceRequirements) {
	if r != nil {
		RoundUpQuantities(r.Limits)
		RoundUpQuantities(r.Requests)
	}
}
