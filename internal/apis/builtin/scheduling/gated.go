package scheduling

import (
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"

	"mainstay.dev/mainstay/internal/apis/builtin"
	"mainstay.dev/mainstay/internal/feature"
)

// Fields of features that can be off, by kind.

func gatedPodGroup() []builtin.Gated[schedulingv1beta1.PodGroup] {
	return []builtin.Gated[schedulingv1beta1.PodGroup]{
		{Gate: feature.CompositePodGroup, Fields: parentGroup},
		{Gate: feature.DRAWorkloadResourceClaims, Fields: groupClaims},
		{Gate: feature.PodGroupPreemptionPolicy, Fields: groupPreemption},
		{Gate: feature.TopologyAwareWorkloadScheduling, Fields: groupTopology},
	}
}

func parentGroup(u *builtin.Use, group *schedulingv1beta1.PodGroup) {
	builtin.Take(u, &group.Spec.ParentCompositePodGroupName)
}

func groupClaims(u *builtin.Use, group *schedulingv1beta1.PodGroup) {
	builtin.Take(u, &group.Spec.ResourceClaims)
	builtin.Take(u, &group.Status.ResourceClaimStatuses)
}

func groupPreemption(u *builtin.Use, group *schedulingv1beta1.PodGroup) {
	builtin.Take(u, &group.Spec.PreemptionPolicy)
}

func groupTopology(u *builtin.Use, group *schedulingv1beta1.PodGroup) {
	builtin.Take(u, &group.Spec.SchedulingConstraints)
}

func gatedWorkload() []builtin.Gated[schedulingv1beta1.Workload] {
	return []builtin.Gated[schedulingv1beta1.Workload]{
		{Gate: feature.CompositePodGroup, Fields: compositeTemplates},
		{Gate: feature.DRAWorkloadResourceClaims, Fields: eachTemplate(func(u *builtin.Use, t *schedulingv1beta1.PodGroupTemplate) {
			builtin.Take(u, &t.ResourceClaims)
		})},
		{Gate: feature.PodGroupPreemptionPolicy, Fields: eachTemplate(func(u *builtin.Use, t *schedulingv1beta1.PodGroupTemplate) {
			builtin.Take(u, &t.PreemptionPolicy)
		})},
		{Gate: feature.TopologyAwareWorkloadScheduling, Fields: eachTemplate(func(u *builtin.Use, t *schedulingv1beta1.PodGroupTemplate) {
			builtin.Take(u, &t.SchedulingConstraints)
		})},
	}
}

func compositeTemplates(u *builtin.Use, workload *schedulingv1beta1.Workload) {
	builtin.Take(u, &workload.Spec.CompositePodGroupTemplates)
}

// eachTemplate calls take for a field of the workload's pod group templates, except those in
// composite templates, which belong to another feature.
func eachTemplate(take func(*builtin.Use, *schedulingv1beta1.PodGroupTemplate)) func(*builtin.Use, *schedulingv1beta1.Workload) {
	return func(u *builtin.Use, workload *schedulingv1beta1.Workload) {
		for i := range workload.Spec.PodGroupTemplates {
			take(u, &workload.Spec.PodGroupTemplates[i])
		}
	}
}
