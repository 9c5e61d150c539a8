package plugin_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"mainstay.dev/mainstay/internal/admission/plugin"
)

func TestDefaultTolerationSeconds(t *testing.T) {
	t.Parallel()
	added := func(key string) corev1.Toleration {
		return corev1.Toleration{Key: key, Operator: "Exists", Effect: "NoExecute", TolerationSeconds: ptr(int64(300))}
	}
	notReady, unreachable := added("node.kubernetes.io/not-ready"), added("node.kubernetes.io/unreachable")
	for name, test := range map[string]struct{ has, added []corev1.Toleration }{
		"none":                 {nil, []corev1.Toleration{notReady, unreachable}},
		"own for not-ready":    {[]corev1.Toleration{{Key: "node.kubernetes.io/not-ready", Operator: "Exists", Effect: "NoExecute"}}, []corev1.Toleration{unreachable}},
		"own for unreachable":  {[]corev1.Toleration{{Key: "node.kubernetes.io/unreachable", Value: "x"}}, []corev1.Toleration{notReady}},
		"of another effect":    {[]corev1.Toleration{{Key: "node.kubernetes.io/not-ready", Operator: "Exists", Effect: "NoSchedule"}}, []corev1.Toleration{notReady, unreachable}},
		"of everything":        {[]corev1.Toleration{{Operator: "Exists"}}, nil},
		"of all that executes": {[]corev1.Toleration{{Operator: "Exists", Effect: "NoExecute"}}, nil},
	} {
		want := append(append([]corev1.Toleration{}, test.has...), test.added...)
		pod := podNamed("x", func(s *corev1.PodSpec) { s.Tolerations = test.has })
		mutated(t, plugin.DefaultTolerationSeconds{}, creating(pods(), pod), "")
		if diff := cmp.Diff(want, pod.Spec.Tolerations); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestDefaultTolerationSecondsElsewhere checks that the plugin does not modify a pod on the status subresource,
// nor objects of other groups.
func TestDefaultTolerationSecondsElsewhere(t *testing.T) {
	t.Parallel()
	pod := podNamed("x")
	mutated(t, plugin.DefaultTolerationSeconds{}, updating(resource("", "pods", "status"), pod, podNamed("x")), "")
	mutated(t, plugin.DefaultTolerationSeconds{}, creating(resource("example.com", "pods", ""), pod), "")
	if len(pod.Spec.Tolerations) > 0 {
		t.Errorf("tolerations %v", pod.Spec.Tolerations)
	}
}

// TestTolerationSecondsOfFlags checks that a flag value of 0 is not replaced with the default.
func TestTolerationSecondsOfFlags(t *testing.T) {
	t.Parallel()
	pod := podNamed("x")
	mutated(t, plugin.DefaultTolerationSeconds{NotReady: ptr(int64(0)), Unreachable: ptr(int64(60))}, creating(pods(), pod), "")
	if got := pod.Spec.Tolerations; len(got) != 2 || *got[0].TolerationSeconds != 0 || *got[1].TolerationSeconds != 60 {
		t.Errorf("tolerations %v", got)
	}
}
