package plugin_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"mainstay.dev/mainstay/internal/admission/plugin"
)

func TestTaintNodesByCondition(t *testing.T) {
	t.Parallel()
	notReady := corev1.Taint{Key: "node.kubernetes.io/not-ready", Effect: "NoSchedule"}
	own := corev1.Taint{Key: "node.kubernetes.io/not-ready", Value: "x", Effect: "NoSchedule"}
	other := corev1.Taint{Key: "node.kubernetes.io/not-ready", Effect: "NoExecute"}
	for name, test := range map[string]struct{ has, want []corev1.Taint }{
		"none":                {nil, []corev1.Taint{notReady}},
		"of its own":          {[]corev1.Taint{own}, []corev1.Taint{own}},
		"with another effect": {[]corev1.Taint{other}, []corev1.Taint{other, notReady}},
	} {
		node := &corev1.Node{Spec: corev1.NodeSpec{Taints: test.has}}
		mutated(t, plugin.TaintNodesByCondition{}, creating(resource("", "nodes", ""), node), "")
		if diff := cmp.Diff(test.want, node.Spec.Taints); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
