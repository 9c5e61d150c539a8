package resource

import (
	"time"

	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mainstay.dev/mainstay/internal/apis/builtin"
)

func defaultClaim(claim *resourcev1.ResourceClaim) {
	defaultRequests(claim.Spec.Devices.Requests)
	if allocation := claim.Status.Allocation; allocation != nil {
		for i := range allocation.Devices.Results {
			defaultTolerations(allocation.Devices.Results[i].Tolerations)
		}
	}
}

func defaultClaimTemplate(template *resourcev1.ResourceClaimTemplate) {
	defaultRequests(template.Spec.Spec.Devices.Requests)
}

// defaultRequests sets the defaults of requests and their alternatives. By default, one device is allocated.
func defaultRequests(requests []resourcev1.DeviceRequest) {
	for i := range requests {
		if exactly := requests[i].Exactly; exactly != nil {
			defaultCount(&exactly.AllocationMode, &exactly.Count)
			defaultTolerations(exactly.Tolerations)
		}
		for j := range requests[i].FirstAvailable {
			sub := &requests[i].FirstAvailable[j]
			defaultCount(&sub.AllocationMode, &sub.Count)
			defaultTolerations(sub.Tolerations)
		}
	}
}

func defaultCount(mode *resourcev1.DeviceAllocationMode, count *int64) {
	builtin.SetDefaultValue(mode, resourcev1.DeviceAllocationModeExactCount)
	if *mode == resourcev1.DeviceAllocationModeExactCount {
		builtin.SetDefaultValue(count, 1)
	}
}

func defaultTolerations(tolerations []resourcev1.DeviceToleration) {
	for i := range tolerations {
		builtin.SetDefaultValue(&tolerations[i].Operator, resourcev1.DeviceTolerationOpEqual)
	}
}

func defaultSlice(slice *resourcev1.ResourceSlice) {
	for i := range slice.Spec.Devices {
		taints := slice.Spec.Devices[i].Taints
		for j := range taints {
			defaultTaint(&taints[j])
		}
	}
}

func defaultTaintRule(rule *resourcev1.DeviceTaintRule) { defaultTaint(&rule.Spec.Taint) }

// defaultTaint sets a missing time of a taint to the current time.
func defaultTaint(taint *resourcev1.DeviceTaint) {
	if taint.TimeAdded == nil {
		taint.TimeAdded = new(metav1.NewTime(time.Now().Truncate(time.Second)))
	}
}
