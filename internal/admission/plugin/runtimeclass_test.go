package plugin_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	quantity "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mainstay.dev/mainstay/internal/admission/plugin"
)

func cpu(amount string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: quantity.MustParse(amount)}
}

func runtimeClasses() stored[*nodev1.RuntimeClass] {
	return stored[*nodev1.RuntimeClass]{
		{ObjectMeta: metav1.ObjectMeta{Name: "plain"}},
		{ObjectMeta: metav1.ObjectMeta{Name: "rich"}, Overhead: &nodev1.Overhead{PodFixed: cpu("100m")}, Scheduling: &nodev1.Scheduling{
			NodeSelector: map[string]string{"rc": "1", "a": "b"}, Tolerations: []corev1.Toleration{{Key: "rc", Operator: "Exists"}},
		}},
	}
}

func TestRuntimeClass(t *testing.T) {
	t.Parallel()
	const (
		differs = `pods "x" is forbidden: pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead`
		without = `pods "x" is forbidden: pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead`
	)
	for name, test := range map[string]struct {
		change            func(*corev1.PodSpec)
		mutates, validate string // refusals
		overhead          corev1.ResourceList
		selector          map[string]string
		tolerations       int
	}{
		"no class": {change: func(*corev1.PodSpec) {}},
		"no class, but overhead": {change: func(s *corev1.PodSpec) { s.Overhead = cpu("1") },
			validate: without, overhead: cpu("1")},
		"a plain class": {change: func(s *corev1.PodSpec) { s.RuntimeClassName = ptr("plain") }},
		"a plain class, but overhead": {change: func(s *corev1.PodSpec) { s.RuntimeClassName, s.Overhead = ptr("plain"), cpu("1") },
			validate: without, overhead: cpu("1")},
		"missing": {change: func(s *corev1.PodSpec) { s.RuntimeClassName = ptr("none") },
			mutates: `pods "x" is forbidden: pod rejected: RuntimeClass "none" not found`, validate: `pods "x" is forbidden: pod rejected: RuntimeClass "none" not found`},
		"all of it": {change: func(s *corev1.PodSpec) {
			s.RuntimeClassName, s.NodeSelector, s.Tolerations = ptr("rich"), map[string]string{"x": "1", "rc": "1"}, []corev1.Toleration{{Key: "k"}}
		}, overhead: cpu("100m"), selector: map[string]string{"x": "1", "rc": "1", "a": "b"}, tolerations: 2},
		"the same overhead": {change: func(s *corev1.PodSpec) { s.RuntimeClassName, s.Overhead = ptr("rich"), cpu("0.1") },
			overhead: cpu("100m"), selector: map[string]string{"rc": "1", "a": "b"}, tolerations: 1},
		"another overhead": {change: func(s *corev1.PodSpec) { s.RuntimeClassName, s.Overhead = ptr("rich"), cpu("1") },
			mutates: differs, validate: differs, overhead: cpu("1")},
		"another selector": {change: func(s *corev1.PodSpec) {
			s.RuntimeClassName, s.NodeSelector = ptr("rich"), map[string]string{"rc": "2"}
		}, mutates: `pods "x" is forbidden: conflict: runtimeClass.scheduling.nodeSelector[rc] = 1; pod.spec.nodeSelector[rc] = 2`,
			overhead: cpu("100m"), selector: map[string]string{"rc": "2"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pod := podNamed("x", test.change)
			p := plugin.RuntimeClass{Classes: runtimeClasses()}
			mutated(t, p, creating(pods(), pod), test.mutates)
			validated(t, p, creating(pods(), pod), test.validate)
			if diff := cmp.Diff(test.overhead, pod.Spec.Overhead); diff != "" {
				t.Errorf("overhead (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.selector, pod.Spec.NodeSelector); diff != "" || len(pod.Spec.Tolerations) != test.tolerations {
				t.Errorf("tolerations %v, selector (-want +got):\n%s", pod.Spec.Tolerations, diff)
			}
		})
	}
}

// TestMergedTolerations checks that tolerations that another toleration covers are omitted.
func TestMergedTolerations(t *testing.T) {
	t.Parallel()
	seconds := func(n int64) corev1.Toleration {
		return corev1.Toleration{Key: "k", Operator: "Exists", Effect: "NoExecute", TolerationSeconds: &n}
	}
	exists, equal, bare := corev1.Toleration{Key: "k", Operator: "Exists"}, corev1.Toleration{Key: "k", Operator: "Equal", Value: "v"}, corev1.Toleration{Key: "k", Value: "v"}
	all := corev1.Toleration{Operator: "Exists"}
	for name, test := range map[string]struct{ pod, class, want []corev1.Toleration }{
		"nothing":             {nil, nil, nil},
		"twice the same":      {[]corev1.Toleration{exists}, []corev1.Toleration{exists}, []corev1.Toleration{exists}},
		"covered later":       {[]corev1.Toleration{equal}, []corev1.Toleration{exists}, []corev1.Toleration{exists}},
		"covered before":      {[]corev1.Toleration{exists}, []corev1.Toleration{equal}, []corev1.Toleration{exists}},
		"by all keys":         {[]corev1.Toleration{equal, exists}, []corev1.Toleration{all}, []corev1.Toleration{all}},
		"without an operator": {[]corev1.Toleration{bare}, []corev1.Toleration{equal}, []corev1.Toleration{bare}},
		"for longer":          {[]corev1.Toleration{seconds(5)}, []corev1.Toleration{seconds(7)}, []corev1.Toleration{seconds(7)}},
		"another effect":      {[]corev1.Toleration{{Key: "k", Operator: "Exists", Effect: "NoSchedule"}}, []corev1.Toleration{seconds(7)}, []corev1.Toleration{{Key: "k", Operator: "Exists", Effect: "NoSchedule"}, seconds(7)}},
	} {
		pod := podNamed("x", func(s *corev1.PodSpec) { s.Tolerations, s.RuntimeClassName = test.pod, ptr("c") })
		class := &nodev1.RuntimeClass{ObjectMeta: metav1.ObjectMeta{Name: "c"}, Scheduling: &nodev1.Scheduling{Tolerations: test.class}}
		mutated(t, plugin.RuntimeClass{Classes: stored[*nodev1.RuntimeClass]{class}}, creating(pods(), pod), "")
		if diff := cmp.Diff(test.want, pod.Spec.Tolerations); diff != "" && len(test.want)+len(pod.Spec.Tolerations) > 0 {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
