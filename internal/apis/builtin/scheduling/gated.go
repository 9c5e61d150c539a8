package scheduling

import (
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"

	"mainstay.dev/mainstay/internal/apis/builtin"
	"mainstay.dev/mainstay/internal/feature"
)

// This file declares the gated fields of each kind.

func gatedPodGroup() []builtin.GatedFields[*schedulingv1beta1.PodGroup] {
	return []builtin.GatedFields[*schedulingv1beta1.PodGroup]{
		{Gate: feature.CompositePodGroup, Visit: parentGroup},
		{Gate: feature.DRAWorkloadResourceClaims, Visit: groupClaims},
		{Gate: feature.PodGroupPreemptionPolicy, Visit: groupPreemption},
		{Gate: feature.TopologyAwareWorkloadScheduling, Visit: groupTopology},
	}
}

func parentGroup(u *builtin.FieldVisitor, group *schedulingv1beta1.PodGroup) {
	builtin.VisitField(u, &group.Spec.ParentCompositePodGroupName)
}

func groupClaims(u *builtin.FieldVisitor, group *schedulingv1beta1.PodGroup) {
	builtin.VisitField(u, &group.Spec.ResourceClaims)
	builtin.VisitField(u, &group.Status.ResourceClaimStatuses)
}

func groupPreemption(u *builtin.FieldVisitor, group *schedulingv1beta1.PodGroup) {
	builtin.VisitField(u, &group.Spec.PreemptionPolicy)
}

func groupTopology(u *builtin.FieldVisitor, group *schedulingv1beta1.PodGroup) {
	builtin.VisitField(u, &group.Spec.SchedulingConstraints)
}

func gatedWorkload() []builtin.GatedFields[*schedulingv1beta1.Workload] {
	return []builtin.GatedFields[*schedulingv1beta1.Workload]{
		{Gate: feature.CompositePodGroup, Visit: compositeTemplates},
		{Gate: feature.DRAWorkloadResourceClaims, Visit: eachTemplate(func(u *builtin.FieldVisitor, t *schedulingv1beta1.PodGroupTemplate) {
			builtin.VisitField(u, &t.ResourceClaims)
		})},
		{Gate: feature.PodGroupPreemptionPolicy, Visit: eachTemplate(func(u *builtin.FieldVisitor, t *schedulingv1beta1.PodGroupTemplate) {
			builtin.VisitField(u, &t.PreemptionPolicy)
		})},
		{Gate: feature.TopologyAwareWorkloadScheduling, Visit: eachTemplate(func(u *builtin.FieldVisitor, t *schedulingv1beta1.PodGroupTemplate) {
			builtin.VisitField(u, &t.SchedulingConstraints)
		})},
	}
}

func compositeTemplates(u *builtin.FieldVisitor, workload *schedulingv1beta1.Workload) {
	builtin.VisitField(u, &workload.Spec.CompositePodGroupTemplates)
}

// eachTemplate returns a function that calls take for the pod group templates of a workload, except for
// templates in composite templates, which another feature gate controls.
func eachTemplate(take func(*builtin.FieldVisitor, *schedulingv1beta1.PodGroupTemplate)) func(*builtin.FieldVisitor, *schedulingv1beta1.Workload) {
	return func(u *builtin.FieldVisitor, workload *schedulingv1beta1.Workload) {
		for i := range workload.Spec.PodGroupTemplates {
			take(u, &workload.Spec.PodGroupTemplates[i])
		}
	}
}
