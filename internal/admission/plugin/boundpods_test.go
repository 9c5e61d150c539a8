package plugin_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	quantity "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mainstay.dev/mainstay/internal/admission/plugin"
)

// boundNodes returns a Linux node with two cores, a Windows node with two cores, and a node with declared
// features.
func boundNodes() stored[*corev1.Node] {
	node := func(name, os string, features ...string) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"kubernetes.io/os": os}},
			Status: corev1.NodeStatus{Allocatable: amounts("cpu=2 memory=1Gi"), DeclaredFeatures: features}}
	}
	unlabeled := node("unlabeled", "")
	unlabeled.Labels = nil
	return stored[*corev1.Node]{unlabeled, node("linux", "linux"), node("other", "windows"), node("declares", "linux", "InPlacePodLevelResourcesVerticalScaling", "X")}
}

func TestPodResizeValidator(t *testing.T) {
	t.Parallel()
	resized := func(node, requests, overhead string) *corev1.Pod {
		pod := podNamed("x", func(s *corev1.PodSpec) {
			s.NodeName, s.Containers, s.Overhead = node, []corev1.Container{container("c", requests, "")}, amounts(overhead)
		})
		pod.Generation = 2
		return pod
	}
	const refused = `pods "x" is forbidden: `
	for name, test := range map[string]struct {
		pod     *corev1.Pod
		refusal string
		cause   metav1.CauseType
	}{
		"not bound":      {resized("", "cpu=3", ""), "", ""},
		"enough":         {resized("linux", "cpu=2 memory=1Gi", ""), "", ""},
		"too much":       {resized("linux", "cpu=3 memory=2Gi", ""), refused + "node didn't have enough allocatable resources: cpu, requested: 3000, allocatable: 2000; memory, requested: 2147483648, allocatable: 1073741824", "NodeCapacity"},
		"by overhead":    {resized("linux", "cpu=2", "cpu=1m"), refused + "node didn't have enough allocatable resources: cpu, requested: 2001, allocatable: 2000", "NodeCapacity"},
		"another system": {resized("other", "cpu=1", ""), refused + `pod resize is only supported on linux nodes, node "other" is "windows"`, "UnsupportedPlatform"},
		"no label":       {resized("unlabeled", "cpu=1", ""), "", ""},
		"also too much":  {resized("other", "cpu=3", ""), refused + `pod resize is only supported on linux nodes, node "other" is "windows"`, "UnsupportedPlatform"},
		"a missing node": {resized("none", "cpu=1", ""), refused + `node "none" not found`, ""},
		"a broken node":  {resized("broken", "cpu=1", ""), refused + `failed to get node "broken": disk trouble`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := plugin.PodResizeValidator{Nodes: boundNodes()}
			resize := resource("", "pods", "resize")
			validated(t, p, updating(resize, test.pod, podNamed("x")), test.refusal)
			if err := p.Validate(t.Context(), updating(resize, test.pod, podNamed("x"))); test.cause != "" && !apierrors.HasStatusCause(err, test.cause) {
				t.Errorf("no cause %s", test.cause)
			}
			validated(t, p, updating(pods(), test.pod, podNamed("x")), "")
			validated(t, p, updating(resize, test.pod, test.pod), "")
		})
	}
}

func TestNodeDeclaredFeatureValidator(t *testing.T) {
	t.Parallel()
	whole := func(s *corev1.PodSpec) { s.Resources = &corev1.ResourceRequirements{Requests: amounts("cpu=1")} }
	initial := func(s *corev1.PodSpec) { s.InitContainers[0].Resources.Requests = amounts("cpu=1") }
	sidecar := func(s *corev1.PodSpec) { s.InitContainers[1].Resources.Requests = amounts("cpu=1") }
	memory := func(s *corev1.PodSpec) { s.Volumes[0].EmptyDir.SizeLimit = ptr(quantity.MustParse("2Gi")) }
	const refused = `pods "x" is forbidden: pod update requires features `
	for name, test := range map[string]struct {
		node    string
		change  []func(*corev1.PodSpec)
		refusal string
	}{
		"nothing":            {"linux", nil, ""},
		"a sidecar":          {"linux", []func(*corev1.PodSpec){sidecar}, ""},
		"the whole pod":      {"linux", []func(*corev1.PodSpec){whole}, refused + `InPlacePodLevelResourcesVerticalScaling which are not available on node "linux"`},
		"declared":           {"declares", []func(*corev1.PodSpec){whole}, ""},
		"not bound":          {"", []func(*corev1.PodSpec){whole}, ""},
		"a missing node":     {"none", []func(*corev1.PodSpec){whole}, `pods "x" is forbidden: node "none" not found`},
		"an init container":  {"declares", []func(*corev1.PodSpec){whole, initial}, refused + `InPlacePodVerticalScalingInitContainers which are not available on node "declares"`},
		"a volume in memory": {"declares", []func(*corev1.PodSpec){initial, memory}, refused + `InPlacePodVerticalScalingInitContainers, InPlacePodVerticalScalingMemoryBackedVolumes which are not available on node "declares"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bound := func(s *corev1.PodSpec) {
				s.NodeName = test.node
				s.InitContainers = []corev1.Container{{Name: "i"}, {Name: "s", RestartPolicy: ptr(corev1.ContainerRestartPolicyAlways)}}
				s.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: "Memory", SizeLimit: ptr(quantity.MustParse("1Gi"))}}}}
			}
			p := plugin.NodeDeclaredFeatureValidator{Nodes: boundNodes()}
			old, pod := podNamed("x", bound), podNamed("x", append([]func(*corev1.PodSpec){bound}, test.change...)...)
			validated(t, p, updating(pods(), pod, old), test.refusal)
			validated(t, p, updating(resource("", "pods", "resize"), pod, old), test.refusal)
			validated(t, p, updating(resource("", "pods", "status"), pod, old), "")
		})
	}
}
