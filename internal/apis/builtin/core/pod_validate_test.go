package core_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"mainstay.dev/mainstay/internal/apis/builtin/podspec"
	"mainstay.dev/mainstay/internal/apis/builtin/validation"
	"mainstay.dev/mainstay/internal/apitest/alloctest"
	"mainstay.dev/mainstay/internal/feature"
)

func TestPodUpdates(t *testing.T) {
	t.Parallel()
	gated := newPod("gated", "")
	gated.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "a.b/c"}, {Name: "a.b/d"}}
	gated.Spec.NodeSelector = map[string]string{"disk": "ssd"}
	bound := newPod("bound", "")
	bound.Spec.NodeName = "n"
	bound.Spec.ActiveDeadlineSeconds = ptr(int64(60))
	bound.Spec.Tolerations = []corev1.Toleration{{Key: "k", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute}}
	a := newAPI(t)
	a.create("v1 pods", gated)
	a.create("v1 pods", bound)
	for _, tt := range []struct {
		name, pod string
		change    func(spec *corev1.PodSpec)
		want      string // "" if the update is valid
	}{
		{"image", "bound", func(s *corev1.PodSpec) { s.Containers[0].Image = "other" }, ""},
		{"image with spaces", "bound", func(s *corev1.PodSpec) { s.Containers[0].Image = " other" }, "must not have leading or trailing whitespace"},
		{"command", "bound", func(s *corev1.PodSpec) { s.Containers[0].Command = []string{"x"} }, "spec: Forbidden: pod updates may not change fields other than"},
		{"another node", "bound", func(s *corev1.PodSpec) { s.NodeName = "m" }, "spec: Forbidden: pod updates may not change fields other than"},
		{"a container more", "bound", func(s *corev1.PodSpec) { s.Containers = append(s.Containers, corev1.Container{Name: "x", Image: "i"}) }, "pod updates may not add or remove containers"},
		{"a toleration more", "bound", func(s *corev1.PodSpec) {
			s.Tolerations = append(s.Tolerations, corev1.Toleration{Key: "l", Operator: corev1.TolerationOpExists})
		}, ""},
		{"how long it is tolerated", "bound", func(s *corev1.PodSpec) { s.Tolerations[0].TolerationSeconds = ptr(int64(5)) }, ""},
		{"a toleration less", "bound", func(s *corev1.PodSpec) { s.Tolerations = nil }, "existing toleration can not be modified except its tolerationSeconds"},
		{"an earlier deadline", "bound", func(s *corev1.PodSpec) { s.ActiveDeadlineSeconds = ptr(int64(30)) }, ""},
		{"a later deadline", "bound", func(s *corev1.PodSpec) { s.ActiveDeadlineSeconds = ptr(int64(90)) }, "must be less than or equal to previous value"},
		{"no deadline", "bound", func(s *corev1.PodSpec) { s.ActiveDeadlineSeconds = nil }, "must not update from a positive integer to nil value"},
		{"a gate less", "gated", func(s *corev1.PodSpec) { s.SchedulingGates = s.SchedulingGates[:1] }, ""},
		{"a new gate", "gated", func(s *corev1.PodSpec) { s.SchedulingGates[0].Name = "x.y/z" }, "only deletion is allowed, but found new scheduling gate 'x.y/z'"},
		{"a choosier gated pod", "gated", func(s *corev1.PodSpec) { s.NodeSelector["zone"] = "a" }, ""},
		{"a less choosy gated pod", "gated", func(s *corev1.PodSpec) { s.NodeSelector = nil }, "only additions to spec.nodeSelector are allowed"},
		{"terms of nodes of a gated pod", "gated", func(s *corev1.PodSpec) { s.Affinity = nodeTerms(corev1.NodeSelectorTerm{}) }, ""},
		{"a choosier bound pod", "bound", func(s *corev1.PodSpec) { s.NodeSelector = map[string]string{"zone": "a"} }, "pod updates may not change fields other than"},
	} {
		before := a.get("v1 pods", in("ns", tt.pod)).(*corev1.Pod).Spec.DeepCopy()
		_, err := update(a, "v1 pods", in("ns", tt.pod), func(pod *corev1.Pod) { pod.Spec = *before.DeepCopy(); tt.change(&pod.Spec) })
		if tt.want == "" && err != nil || tt.want != "" && (!apierrors.IsInvalid(err) || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
	}
}

func podFaults(validator *validation.Validator, t testing.TB, spec *corev1.PodSpec) int {
	return len(validator.Validate(t.Context(), func(f validation.Field) {
		podspec.Validate(f.Child("spec"), spec, nil, podspec.Options{Pod: true})
	}))
}

// TestValidPodAllocatesNothing checks that validating a valid pod of 4 KiB does not allocate.
func TestValidPodAllocatesNothing(t *testing.T) {
	pod, validator := fullPod(), validation.NewValidator(feature.Defaults())
	declared(t).resource("v1 pods").Version.Default(pod)
	alloctest.None(t, "a create", func() {
		if n := podFaults(validator, t, &pod.Spec); n > 0 {
			t.Fatalf("%d errors", n)
		}
	})
	old := pod.Spec.DeepCopy()
	alloctest.None(t, "an update", func() {
		if faults := validator.Validate(t.Context(), func(f validation.Field) { podspec.Validate(f, &pod.Spec, old, podspec.Options{Pod: true}) }); len(faults) > 0 {
			t.Fatal(faults)
		}
	})
}

// TestHostilePods checks that validation compares list elements in linear time.
func TestHostilePods(t *testing.T) {
	t.Parallel()
	const n = 20_000
	spec := newPod("p", "").Spec
	c := &spec.Containers[0]
	c.Name, c.Image = "first", "i"
	for i := range n {
		name := fmt.Sprint("c", i)
		spec.Containers = append(spec.Containers, corev1.Container{Name: name, Image: "i", VolumeMounts: []corev1.VolumeMount{{Name: name, MountPath: "/a"}}})
		spec.Volumes = append(spec.Volumes, corev1.Volume{Name: name})
		spec.ResourceClaims = append(spec.ResourceClaims, corev1.PodResourceClaim{Name: name, ResourceClaimName: &name})
		spec.SchedulingGates = append(spec.SchedulingGates, corev1.PodSchedulingGate{Name: name})
		spec.TopologySpreadConstraints = append(spec.TopologySpreadConstraints, corev1.TopologySpreadConstraint{TopologyKey: name})
	}
	c = &spec.Containers[0]
	for i := range n {
		name := fmt.Sprint("c", i)
		c.Ports = append(c.Ports, corev1.ContainerPort{Name: name, ContainerPort: 1, HostPort: int32(i + 1)})
		c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: name, MountPath: "/" + name})
		c.VolumeDevices = append(c.VolumeDevices, corev1.VolumeDevice{Name: name, DevicePath: "/dev/" + name})
		c.Resources.Claims = append(c.Resources.Claims, corev1.ResourceClaim{Name: name})
	}
	c.Resources.Claims = append(c.Resources.Claims, slices.Repeat([]corev1.ResourceClaim{{Name: "none"}}, n)...)
	validator := validation.NewValidator(feature.Defaults())
	if got := podFaults(validator, t, &spec); got != 1000 {
		t.Errorf("%d errors are reported, want the maximum of 1000", got)
	}
	updated := len(validator.Validate(t.Context(), func(f validation.Field) {
		podspec.Validate(f, &spec, &spec, podspec.Options{Pod: true, Name: "p"})
	}))
	if updated != 1000 {
		t.Errorf("%d errors of an update are reported, want the maximum of 1000", updated)
	}
}

// BenchmarkValidatePod measures the validation of a pod of 4 KiB, once without and once with setting its
// defaults.
func BenchmarkValidatePod(b *testing.B) {
	defaults := declared(b).resource("v1 pods").Version.Default
	pod, validator := fullPod(), validation.NewValidator(feature.Defaults())
	defaults(pod)
	b.Run("rules", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			podFaults(validator, b, &pod.Spec)
		}
	})
	b.Run("defaults and rules", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			defaults(pod)
			podFaults(validator, b, &pod.Spec)
		}
	})
}

// TestLongPodUpdate changes a long immutable list of a pod. kube-apiserver takes hours to compare such lists.
func TestLongPodUpdate(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	pod := newPod("p", "n")
	for i := range 10_000 {
		pod.Spec.Containers[0].Args = append(pod.Spec.Containers[0].Args, fmt.Sprint(i%150), fmt.Sprintf("a%d", i%100))
	}
	a.create("v1 pods", pod)
	_, err := update(a, "v1 pods", in("ns", "p"), func(pod *corev1.Pod) {
		for i, arg := range pod.Spec.Containers[0].Args {
			pod.Spec.Containers[0].Args[i] = strings.Replace(arg, "a", "b", 1)
		}
	})
	if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), `-    "a0",`) || !strings.Contains(err.Error(), `+    "b0",`) {
		t.Errorf("got %.3000v, want the changed lines", err)
	}
}
