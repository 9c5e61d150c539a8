package podspec

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// RoundUp rounds quantities up to thousandths, the finest there are.
func RoundUp(list corev1.ResourceList) {
	for name, quantity := range list {
		if exact := quantity.RoundUp(resource.Milli); !exact {
			list[name] = quantity
		}
	}
}

// RoundUpBoth does it with requests and limits. The requirements may be nil.
func RoundUpBoth(r *corev1.ResourceRequirements) {
	if r != nil {
		RoundUp(r.Limits)
		RoundUp(r.Requests)
	}
}
