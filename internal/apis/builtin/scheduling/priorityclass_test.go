package scheduling

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mainstay.dev/mainstay/internal/apis/builtin/validation/validationtest"
)

func newClass() *schedulingv1.PriorityClass {
	return &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "high"}, Value: 1000000000, PreemptionPolicy: new(corev1.PreemptNever)}
}

func TestPriorityClasses(t *testing.T) {
	t.Parallel()
	const reserved = "metadata.name: Forbidden: priority class names with 'system-' prefix are reserved for system use only. error: "
	system := func(name string, value int32, isDefault bool) func(*schedulingv1.PriorityClass) {
		return func(c *schedulingv1.PriorityClass) { c.Name, c.Value, c.GlobalDefault = name, value, isDefault }
	}
	validationtest.Rules[schedulingv1.PriorityClass](validatePriorityClass).Create(t, newClass, []validationtest.Case[schedulingv1.PriorityClass]{
		{Name: "too high", Change: func(c *schedulingv1.PriorityClass) { c.Value++ },
			Want: []string{"value: Forbidden: maximum allowed value of a user defined priority is 1000000000"}},
		{Name: "negative", Change: func(c *schedulingv1.PriorityClass) { c.Value = -2147483648 }},
		{Name: "system class", Change: system("system-node-critical", 2000001000, false)},
		{Name: "system class as default", Change: system("system-node-critical", 2000001000, true),
			Want: []string{reserved + "globalDefault of system-node-critical PriorityClass must be false"}},
		{Name: "system class with a wrong value", Change: system("system-cluster-critical", 1, false),
			Want: []string{reserved + "value of system-cluster-critical PriorityClass must be 2000000000"}},
		{Name: "unknown system class", Change: system("system-x", 1, false), Want: []string{reserved + "system-x is not a known system priority class"}},
	})
}

func TestPriorityClassUpdates(t *testing.T) {
	t.Parallel()
	stored := func() *schedulingv1.PriorityClass {
		class := newClass()
		class.Value = 2000000000
		return class
	}
	validationtest.Rules[schedulingv1.PriorityClass](validatePriorityClass).Update(t, stored, []validationtest.Case[schedulingv1.PriorityClass]{
		{Name: "as default", Change: func(c *schedulingv1.PriorityClass) { c.GlobalDefault = true }},
		{Name: "lower", Change: func(c *schedulingv1.PriorityClass) { c.Value = 1 }, Want: []string{"value: Forbidden: may not be changed in an update."}},
		{Name: "preempting", Change: func(c *schedulingv1.PriorityClass) { c.PreemptionPolicy = new(corev1.PreemptLowerPriority) },
			Want: []string{"preemptionPolicy: Invalid value: \"PreemptLowerPriority\": field is immutable"}},
	})
}
