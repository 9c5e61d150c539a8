package plugin_test

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mainstay.dev/mainstay/internal/admission/plugin"
)

type priorityClasses = stored[*schedulingv1.PriorityClass]

func priorityClass(name string, value int32, policy corev1.PreemptionPolicy) *schedulingv1.PriorityClass {
	return &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Value: value, PreemptionPolicy: &policy}
}

func asDefault(class *schedulingv1.PriorityClass) *schedulingv1.PriorityClass {
	class.GlobalDefault = true
	return class
}

func TestPriority(t *testing.T) {
	t.Parallel()
	high, low := priorityClass("high", 500, corev1.PreemptNever), asDefault(priorityClass("low", -3, corev1.PreemptLowerPriority))
	without, with := priorityClasses{high}, priorityClasses{high, asDefault(priorityClass("also", 7, corev1.PreemptNever)), low}
	named := func(name string) func(*corev1.PodSpec) {
		return func(s *corev1.PodSpec) { s.PriorityClassName = name }
	}
	for name, test := range map[string]struct {
		classes priorityClasses
		change  func(*corev1.PodSpec)
		refusal string
		class   string
		want    int32
		policy  corev1.PreemptionPolicy
	}{
		"no class":              {without, named(""), "", "", 0, corev1.PreemptLowerPriority},
		"the default class":     {with, named(""), "", "low", -3, corev1.PreemptLowerPriority},
		"a class":               {with, named("high"), "", "high", 500, corev1.PreemptNever},
		"a class, and the same": {with, func(s *corev1.PodSpec) { s.PriorityClassName, s.Priority = "high", ptr(int32(500)) }, "", "high", 500, corev1.PreemptNever},
		"a class that is missing": {with, named("none"),
			`pods "x" is forbidden: no PriorityClass with name none was found`, "", 0, ""},
		"another priority": {with, func(s *corev1.PodSpec) { s.PriorityClassName, s.Priority = "high", ptr(int32(5)) },
			`pods "x" is forbidden: the integer value of priority (5) must not be provided in pod spec; priority admission controller computed 500 from the given PriorityClass name`, "", 0, ""},
		"a priority without a class": {without, func(s *corev1.PodSpec) { s.Priority = ptr(int32(5)) },
			`pods "x" is forbidden: the integer value of priority (5) must not be provided in pod spec; priority admission controller computed 0 from the given PriorityClass name`, "", 0, ""},
		"another policy": {with, func(s *corev1.PodSpec) {
			s.PriorityClassName, s.PreemptionPolicy = "high", ptr(corev1.PreemptLowerPriority)
		}, `pods "x" is forbidden: the string value of PreemptionPolicy (PreemptLowerPriority) must not be provided in pod spec; priority admission controller computed Never from the given PriorityClass name`, "", 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pod := podNamed("x", test.change)
			mutated(t, plugin.Priority{Classes: test.classes}, creating(pods(), pod), test.refusal)
			if test.refusal != "" {
				return
			}
			if s := pod.Spec; s.PriorityClassName != test.class || *s.Priority != test.want || *s.PreemptionPolicy != test.policy {
				t.Errorf("class %q, priority %d, policy %s", s.PriorityClassName, *s.Priority, *s.PreemptionPolicy)
			}
		})
	}
	if high.Value != 500 || *high.PreemptionPolicy != corev1.PreemptNever {
		t.Error("the shared class was modified")
	}
}

// TestPriorityOfUpdates checks that an update preserves omitted values without looking up the class.
func TestPriorityOfUpdates(t *testing.T) {
	t.Parallel()
	old := podNamed("x", func(s *corev1.PodSpec) {
		s.Priority, s.PreemptionPolicy = ptr(int32(5)), ptr(corev1.PreemptNever)
	})
	pod := podNamed("x")
	mutated(t, plugin.Priority{}, updating(pods(), pod, old), "")
	if s := pod.Spec; s.Priority == nil || *s.Priority != 5 || s.PreemptionPolicy == nil || *s.PreemptionPolicy != corev1.PreemptNever {
		t.Errorf("priority %v, policy %v", s.Priority, s.PreemptionPolicy)
	}
}

func TestPriorityKeepsErrors(t *testing.T) {
	t.Parallel()
	p := plugin.Priority{Classes: broken[*schedulingv1.PriorityClass]{}}
	for _, class := range []string{"", "high"} {
		pod := podNamed("x", func(s *corev1.PodSpec) { s.PriorityClassName = class })
		if err := p.Mutate(t.Context(), creating(pods(), pod)); !errors.Is(err, errDisk) {
			t.Errorf("class %q: %v", class, err)
		}
	}
}

func TestOnePriorityClassIsDefault(t *testing.T) {
	t.Parallel()
	classes := resource("scheduling.k8s.io", "priorityclasses", "")
	present := asDefault(priorityClass("present", 1, corev1.PreemptNever))
	p := plugin.Priority{Classes: priorityClasses{present}}
	const refused = `priorityclasses.scheduling.k8s.io "x" is forbidden: PriorityClass present is already marked as default. Only one default can exist`
	second := asDefault(priorityClass("x", 2, corev1.PreemptNever))
	validated(t, p, creating(classes, second), refused)
	validated(t, p, updating(classes, second, priorityClass("x", 2, corev1.PreemptNever)), refused)
	validated(t, p, updating(classes, present, present), "")
	validated(t, p, creating(classes, priorityClass("x", 2, corev1.PreemptNever)), "")
	validated(t, plugin.Priority{Classes: priorityClasses{}}, creating(classes, second), "")
}
