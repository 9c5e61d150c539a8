package node

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"mainstay.dev/mainstay/internal/apis/builtin/validation/validationtest"
)

func newClass() *nodev1.RuntimeClass {
	toleration := corev1.Toleration{Key: "k", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute}
	other := toleration
	other.TolerationSeconds = new(int64(0))
	return &nodev1.RuntimeClass{
		Handler:    "runc",
		Overhead:   &nodev1.Overhead{PodFixed: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1m")}},
		Scheduling: &nodev1.Scheduling{NodeSelector: map[string]string{"a": "b"}, Tolerations: []corev1.Toleration{toleration, other}},
	}
}

func TestRuntimeClasses(t *testing.T) {
	t.Parallel()
	validationtest.Rules[nodev1.RuntimeClass](validateRuntimeClass).Create(t, newClass, []validationtest.Case[nodev1.RuntimeClass]{
		{Name: "no handler", Change: func(c *nodev1.RuntimeClass) { c.Handler = "" }, Want: []string{"handler: Required value"}},
		{Name: "a duplicate toleration", Change: func(c *nodev1.RuntimeClass) {
			c.Scheduling.Tolerations = append(c.Scheduling.Tolerations, c.Scheduling.Tolerations[1])
		}, Want: []string{"scheduling.tolerations[2]: Duplicate value: "}},
		{Name: "negative overhead", Change: func(c *nodev1.RuntimeClass) {
			c.Overhead.PodFixed[corev1.ResourceCPU] = resource.MustParse("-1")
		}, Want: []string{`overhead.limits[cpu]: Invalid value: "-1": must be greater than or equal to 0`}},
		{Name: "only a handler", Change: func(c *nodev1.RuntimeClass) { c.Overhead, c.Scheduling = nil, nil }},
	})
}

func TestRuntimeClassUpdates(t *testing.T) {
	t.Parallel()
	stored := func() *nodev1.RuntimeClass { return &nodev1.RuntimeClass{Handler: "Bad_"} }
	validationtest.Rules[nodev1.RuntimeClass](validateRuntimeClass).Update(t, stored, []validationtest.Case[nodev1.RuntimeClass]{
		{Name: "another handler", Change: func(c *nodev1.RuntimeClass) { c.Handler = "runc" }, Want: []string{"handler: Invalid value: \"runc\": field is immutable"}},
		{Name: "another bad handler", Change: func(c *nodev1.RuntimeClass) { c.Handler = "Bad_2" },
			Want: []string{"handler: Invalid value: \"Bad_2\": a lowercase RFC 1123 label", "field is immutable"}},
		{Name: "overhead", Change: func(c *nodev1.RuntimeClass) { c.Overhead = newClass().Overhead }},
	})
}

func TestRuntimeClassWarnings(t *testing.T) {
	t.Parallel()
	class := newClass()
	class.Scheduling.NodeSelector = map[string]string{"beta.kubernetes.io/os": "linux", "beta.kubernetes.io/arch": "amd64", "a": "b"}
	want := []string{
		`scheduling.nodeSelector: deprecated since v1.14; use "kubernetes.io/arch" instead`,
		`scheduling.nodeSelector: deprecated since v1.14; use "kubernetes.io/os" instead`,
	}
	if diff := cmp.Diff(want, runtimeClassWarnings(nil, class, nil)); diff != "" {
		t.Error(diff)
	}
	if got := runtimeClassWarnings(nil, &nodev1.RuntimeClass{}, nil); got != nil {
		t.Errorf("warnings %q for a class without scheduling", got)
	}
}
