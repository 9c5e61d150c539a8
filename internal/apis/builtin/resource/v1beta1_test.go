package resource

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	resourcev1 "k8s.io/api/resource/v1"
	resourcev1beta1 "k8s.io/api/resource/v1beta1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// TestClaimV1beta1 checks that a v1beta1 request contains the fields of "exactly" directly.
func TestClaimV1beta1(t *testing.T) {
	t.Parallel()
	old := &resourcev1beta1.ResourceClaim{}
	old.Name = "c"
	old.Spec.Devices.Requests = []resourcev1beta1.DeviceRequest{
		{Name: "one", DeviceClassName: "gpu", Selectors: []resourcev1beta1.DeviceSelector{{CEL: &resourcev1beta1.CELDeviceSelector{Expression: "true"}}}},
		{Name: "any", FirstAvailable: []resourcev1beta1.DeviceSubRequest{{Name: "big", DeviceClassName: "gpu"}}},
		{Name: "nothing"},
	}
	want := []resourcev1.DeviceRequest{
		{Name: "one", Exactly: &resourcev1.ExactDeviceRequest{
			DeviceClassName: "gpu", AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: 1,
			Selectors: []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{Expression: "true"}}},
		}},
		{Name: "any", FirstAvailable: []resourcev1.DeviceSubRequest{{
			Name: "big", DeviceClassName: "gpu", AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: 1,
		}}},
		{Name: "nothing", Exactly: &resourcev1.ExactDeviceRequest{AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: 1}},
	}
	version := claimV1beta1()
	version.Default(old)
	hub, err := version.ToHub(old.DeepCopy())
	if err != nil {
		t.Fatal(err)
	}
	claim := hub.(*resourcev1.ResourceClaim)
	if diff := cmp.Diff(want, claim.Spec.Devices.Requests); diff != "" {
		t.Errorf("to v1:\n%s", diff)
	}
	back, err := version.FromHub(claim)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(old, back); diff != "" {
		t.Errorf("after conversion to v1 and back:\n%s", diff)
	}
}

// TestSliceV1beta1 checks that a v1beta1 device contains its fields in "basic".
func TestSliceV1beta1(t *testing.T) {
	t.Parallel()
	text := "x"
	old := &resourcev1beta1.ResourceSlice{}
	old.Spec = resourcev1beta1.ResourceSliceSpec{
		Driver: "gpu.example.com", NodeName: "n",
		Devices: []resourcev1beta1.Device{{Name: "d", Basic: &resourcev1beta1.BasicDevice{
			Attributes: map[resourcev1beta1.QualifiedName]resourcev1beta1.DeviceAttribute{"a": {StringValue: &text}},
			Capacity:   map[resourcev1beta1.QualifiedName]resourcev1beta1.DeviceCapacity{"m": {Value: resource.MustParse("1Gi")}},
		}}},
	}
	version := sliceV1beta1()
	hub, err := version.ToHub(old.DeepCopy())
	if err != nil {
		t.Fatal(err)
	}
	slice := hub.(*resourcev1.ResourceSlice)
	device := slice.Spec.Devices[0]
	capacity := device.Capacity["m"].Value
	if *slice.Spec.NodeName != "n" || slice.Spec.AllNodes != nil || *device.Attributes["a"].StringValue != "x" || capacity.String() != "1Gi" {
		t.Errorf("to v1: %+v", slice.Spec)
	}
	back, err := version.FromHub(slice)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(old, back); diff != "" {
		t.Errorf("after conversion to v1 and back:\n%s", diff)
	}
}
