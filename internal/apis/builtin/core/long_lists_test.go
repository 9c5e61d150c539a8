package core

import (
	"fmt"
	"slices"
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
	// Statuses of one container with many claims, and of many containers.
	claiming, many := &corev1.Pod{}, &corev1.Pod{}
	claiming.Spec.Containers = make([]corev1.Container, 1)
	for i := range n {
		name := fmt.Sprint("c", i)
		claims := &claiming.Spec.Containers[0].Resources.Claims
		*claims = append(*claims, corev1.ResourceClaim{Name: name, Request: "r"})
		claiming.Status.ContainerStatuses = append(claiming.Status.ContainerStatuses, corev1.ContainerStatus{AllocatedResourcesStatus: []corev1.ResourceStatus{
			{Name: corev1.ResourceName("claim:" + name + "/r")},
		}})
		claiming.Spec.ReadinessGates = append(claiming.Spec.ReadinessGates, corev1.PodReadinessGate{ConditionType: corev1.PodConditionType(name)})
		claiming.Status.Conditions = append(claiming.Status.Conditions, corev1.PodCondition{Type: corev1.PodConditionType(name), Status: corev1.ConditionTrue})
		many.Spec.Containers = append(many.Spec.Containers, corev1.Container{Name: name})
		many.Status.ContainerStatuses = append(many.Status.ContainerStatuses, corev1.ContainerStatus{Name: name, AllocatedResourcesStatus: []corev1.ResourceStatus{
			{Name: "cpu"},
		}})
	}
	extended := &corev1.PodExtendedResourceClaimStatus{ResourceClaimName: "c", RequestMappings: slices.Repeat([]corev1.ContainerExtendedResourceRequest{
		{ContainerName: "c1", ResourceName: "a.b/c", RequestName: "r"},
	}, n)}
	if text := readinessGateText(claiming); text != fmt.Sprintf("%d/%d", n, n) {
		t.Errorf("readiness gates: %s", text)
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
		{"claims", func(f validation.Field) { validateContainerStatuses(f, claiming, &corev1.PodStatus{}) }, 0},
		{"containers", func(f validation.Field) { validateContainerStatuses(f, many, &corev1.PodStatus{}) }, 1000},
		{"extended resources", func(f validation.Field) { validateExtendedClaim(f, extended, &many.Spec) }, 1000},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if errs := validationtest.Errors(t, feature.Defaults(), tt.rules); len(errs) != tt.want {
				t.Errorf("%d errors, want %d", len(errs), tt.want)
			}
		})
	}
}
