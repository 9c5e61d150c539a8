package resource

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	resourcev1 "k8s.io/api/resource/v1"

	"mainstay.dev/mainstay/internal/apis/builtin"
)

func claimWith(allocated, reported []string) *resourcev1.ResourceClaim {
	claim := &resourcev1.ResourceClaim{Status: resourcev1.ResourceClaimStatus{Allocation: &resourcev1.AllocationResult{}}}
	for _, name := range allocated {
		claim.Status.Allocation.Devices.Results = append(claim.Status.Allocation.Devices.Results,
			resourcev1.DeviceRequestAllocationResult{Driver: "d", Pool: "p", Device: name})
	}
	for _, name := range reported {
		claim.Status.Devices = append(claim.Status.Devices, resourcev1.AllocatedDeviceStatus{Driver: "d", Pool: "p", Device: name})
	}
	return claim
}

func TestClaimStatus(t *testing.T) {
	t.Parallel()
	old := claimWith([]string{"a", "b"}, []string{"a", "b"})
	claim := claimWith([]string{"b"}, []string{"a", "b"})
	prepareClaimStatus(&builtin.Operation{Context: t.Context()}, claim, old)
	if diff := cmp.Diff(claimWith([]string{"b"}, []string{"b"}), claim); diff != "" {
		t.Errorf("a removed device:\n%s", diff)
	}
	claim = claimWith(nil, []string{"a", "b"})
	claim.Status.Allocation = nil
	prepareClaimStatus(&builtin.Operation{Context: t.Context()}, claim, old)
	if claim.Status.Devices != nil {
		t.Errorf("without allocation there are devices %+v", claim.Status.Devices)
	}
}

func TestTaintTime(t *testing.T) {
	t.Parallel()
	old := &resourcev1.DeviceTaintRule{}
	old.Spec.Taint.Effect = resourcev1.DeviceTaintEffectNoSchedule
	rule := old.DeepCopy()
	prepareTaintRuleUpdate(&builtin.Operation{Context: t.Context()}, rule, old)
	if rule.Spec.Taint.TimeAdded != nil {
		t.Error("the time changed although the effect did not")
	}
	rule.Spec.Taint.Effect = resourcev1.DeviceTaintEffectNoExecute
	prepareTaintRuleUpdate(&builtin.Operation{Context: t.Context()}, rule, old)
	if rule.Spec.Taint.TimeAdded == nil {
		t.Error("a new effect has no time")
	}
}
