package emulation_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"mainstay.dev/mainstay/internal/feature"
	"mainstay.dev/mainstay/internal/feature/emulation"
)

func newRelease(minor int) *emulation.Release {
	return emulation.New(minor, feature.DefaultsOf(minor))
}

func TestCheck(t *testing.T) {
	t.Parallel()
	for minor, want := range map[int]string{
		0: "", 33: "", 37: "",
		32: "version 1.32 cannot be emulated: choose a version from 1.33 to 1.37",
		38: "version 1.38 cannot be emulated: choose a version from 1.33 to 1.37",
		-1: "version 1.-1 cannot be emulated: choose a version from 1.33 to 1.37",
	} {
		if got := errorText(emulation.Check(minor)); got != want {
			t.Errorf("%d: got error %q, want %q", minor, got, want)
		}
	}
	for minor, newest := range map[int]bool{0: true, 33: false, 37: true} {
		if r := newRelease(minor); (r == nil) != newest {
			t.Errorf("%d: got %v", minor, r)
		}
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// TestHasKind checks which emulated versions have a kind in an API version.
func TestHasKind(t *testing.T) {
	t.Parallel()
	claims := schema.GroupVersionKind{Group: "resource.k8s.io", Version: "v1", Kind: "ResourceClaim"}
	policies := schema.GroupVersionKind{Group: "admissionregistration.k8s.io", Version: "v1beta1", Kind: "MutatingAdmissionPolicy"}
	pods := schema.GroupVersionKind{Version: "v1", Kind: "Pod"}
	for _, tt := range []struct {
		minor int
		kind  schema.GroupVersionKind
		want  bool
	}{
		{33, pods, true}, {33, claims, false}, {34, claims, true}, {37, claims, true}, {33, policies, false}, {34, policies, true},
	} {
		if got := newRelease(tt.minor).HasKind(tt.kind); got != tt.want {
			t.Errorf("1.%d has %s: %t, want %t", tt.minor, tt.kind, got, tt.want)
		}
	}
}

// TestDrop checks that missing and disabled fields are dropped, except fields that are set in the old object.
func TestDrop(t *testing.T) {
	t.Parallel()
	newPod := func() *corev1.Pod {
		name := "name"
		return &corev1.Pod{Spec: corev1.PodSpec{
			Hostname: "host", HostnameOverride: &name, // added in 1.34
			ResourceClaims: []corev1.PodResourceClaim{{Name: "claim"}}, // disabled in 1.33
			Containers: []corev1.Container{
				{Name: "a"},
				{Name: "b", Resources: corev1.ResourceRequirements{Claims: []corev1.ResourceClaim{{Name: "claim"}}}, RestartPolicyRules: []corev1.ContainerRestartRule{{}}},
			},
			EphemeralContainers: []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{RestartPolicyRules: []corev1.ContainerRestartRule{{}}}}},
		}}
	}
	fields := newRelease(33).FieldsOf(reflect.TypeFor[corev1.Pod](), "v1")
	want := []string{"spec.containers[1].restartPolicyRules", "spec.ephemeralContainers[0].restartPolicyRules", "spec.hostnameOverride"}
	got := fields.Unknown(newPod())
	if slices.Sort(got); !slices.Equal(got, want) {
		t.Errorf("unknown fields: got %q, want %q", got, want)
	}

	created := newPod()
	fields.Drop(created, (*corev1.Pod)(nil))
	if s := created.Spec; s.Hostname == "" || s.HostnameOverride != nil || s.ResourceClaims != nil || s.Containers[1].Resources.Claims != nil ||
		s.Containers[1].RestartPolicyRules != nil || s.EphemeralContainers[0].RestartPolicyRules != nil {
		t.Errorf("created: %+v", s)
	}

	old := newPod()
	old.Spec.Containers, old.Spec.EphemeralContainers = nil, nil
	updated := newPod()
	fields.Drop(updated, old)
	if s := updated.Spec; s.HostnameOverride == nil || s.ResourceClaims == nil || s.Containers[1].RestartPolicyRules != nil {
		t.Errorf("updated: %+v", s)
	}
}

// TestDropInMaps checks that missing fields are reported and dropped from structs that are stored as map
// values, in an API version that reuses the Go types of another version.
func TestDropInMaps(t *testing.T) {
	t.Parallel()
	slice := &resourcev1.ResourceSlice{Spec: resourcev1.ResourceSliceSpec{Devices: []resourcev1.Device{{
		Name:     "a",
		Capacity: map[resourcev1.QualifiedName]resourcev1.DeviceCapacity{"memory": {RequestPolicy: &resourcev1.CapacityRequestPolicy{}}},
	}}}}
	fields := newRelease(33).FieldsOf(reflect.TypeFor[resourcev1.ResourceSlice](), "v1beta2")
	if got, want := fields.Unknown(slice), "spec.devices[0].capacity.memory.requestPolicy"; strings.Join(got, " ") != want {
		t.Errorf("unknown fields: got %q, want %s", got, want)
	}
	fields.Drop(slice, nil)
	if capacity, ok := slice.Spec.Devices[0].Capacity["memory"]; !ok || capacity.RequestPolicy != nil {
		t.Errorf("the capacity is %+v", slice.Spec.Devices[0].Capacity)
	}
	if fields := newRelease(33).FieldsOf(reflect.TypeFor[corev1.ConfigMap](), "v1"); fields != nil {
		t.Error("config maps lack fields")
	}
}
