package core

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"mainstay.dev/mainstay/internal/apis/builtin/validation"
	"mainstay.dev/mainstay/internal/apis/builtin/validation/validationtest"
	"mainstay.dev/mainstay/internal/feature"
)

// TestLongLists validates objects of the maximum request size. The validation time must be linear in the size;
// comparing all pairs of elements would take hours.
func TestLongLists(t *testing.T) {
	t.Parallel()
	const n = 300_000
	pod, quota := &corev1.Pod{}, &corev1.ResourceQuota{}
	var ips, oldIPs []string
	quota.Spec.Hard = corev1.ResourceList{}
	for i := range n {
		pod.Spec.SchedulingGates = append(pod.Spec.SchedulingGates, corev1.PodSchedulingGate{Name: fmt.Sprint("a", n+i)})
		ips, oldIPs = append(ips, fmt.Sprint("x", i)), append(oldIPs, fmt.Sprint("y", i))
		quota.Spec.Hard[corev1.ResourceName(fmt.Sprint("a.b/", i))] = amounts("x", "1")["x"]
		quota.Spec.Scopes = append(quota.Spec.Scopes, corev1.ResourceQuotaScopeTerminating)
	}
	selected := quota.DeepCopy()
	selected.Spec.Scopes, selected.Spec.ScopeSelector = nil, &corev1.ScopeSelector{}
	for range n {
		selected.Spec.ScopeSelector.MatchExpressions = append(selected.Spec.ScopeSelector.MatchExpressions,
			corev1.ScopedResourceSelectorRequirement{ScopeName: corev1.ResourceQuotaScopeTerminating, Operator: corev1.ScopeSelectorOpExists})
	}
	for _, tt := range []struct {
		name  string
		rules func(validation.Field)
		want  int
	}{
		{"scheduling gates", func(f validation.Field) { validateGateUpdate(f, &pod.Spec, &corev1.PodSpec{}) }, 1000},
		{"addresses", func(f validation.Field) { validateExternalIPs(f, ips, oldIPs) }, 1000},
		{"scopes", func(f validation.Field) { validateResourceQuota(f, quota, nil) }, 0},
		{"selected scopes", func(f validation.Field) { validateResourceQuota(f, selected, nil) }, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if errs := validationtest.Errors(t, feature.Defaults(), tt.rules); len(errs) != tt.want {
				t.Errorf("%d errors, want %d", len(errs), tt.want)
			}
		})
	}
}
