package plugin_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mainstay.dev/mainstay/internal/admission/plugin"
)

func TestPodTopologyLabels(t *testing.T) {
	t.Parallel()
	const zone, region = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
	p := plugin.PodTopologyLabels{Nodes: stored[*corev1.Node]{
		{ObjectMeta: metav1.ObjectMeta{Name: "full", Labels: map[string]string{zone: "z", region: "r", "x": "y"}}},
		{ObjectMeta: metav1.ObjectMeta{Name: "bare", Labels: map[string]string{"x": "y"}}},
	}}
	for name, test := range map[string]struct {
		node      string
		has, want map[string]string
	}{
		"not bound":      {"", nil, nil},
		"a missing node": {"none", nil, nil},
		"without labels": {"bare", nil, nil},
		"with labels":    {"full", nil, map[string]string{zone: "z", region: "r"}},
		"over its own":   {"full", map[string]string{zone: "own", "a": "b"}, map[string]string{zone: "z", region: "r", "a": "b"}},
	} {
		pod := podNamed("x", func(s *corev1.PodSpec) { s.NodeName = test.node })
		binding := &corev1.Binding{Target: corev1.ObjectReference{Kind: "Node", Name: test.node}}
		pod.Labels = map[string]string{}
		binding.Labels = map[string]string{}
		for k, v := range test.has {
			pod.Labels[k], binding.Labels[k] = v, v
		}
		if len(test.has) == 0 {
			pod.Labels, binding.Labels = nil, nil
		}
		mutated(t, p, creating(pods(), pod), "")
		mutated(t, p, creating(resource("", "pods", "binding"), binding), "")
		if diff := cmp.Diff(test.want, pod.Labels); diff != "" {
			t.Errorf("%s: a pod (-want +got):\n%s", name, diff)
		}
		if diff := cmp.Diff(test.want, binding.Labels); diff != "" {
			t.Errorf("%s: a binding (-want +got):\n%s", name, diff)
		}
	}
	p.Nodes = broken[*corev1.Node]{}
	if err := p.Mutate(t.Context(), creating(pods(), podNamed("x", func(s *corev1.PodSpec) { s.NodeName = "n" }))); !errors.Is(err, errDisk) {
		t.Errorf("error %v", err)
	}
	for _, target := range []corev1.ObjectReference{{Name: "n"}, {Kind: "Node"}} { // as in kube-apiserver, the kind is required; validation requires the name
		mutated(t, p, creating(resource("", "pods", "binding"), &corev1.Binding{Target: target}), "")
	}
}
