package core

import (
	corev1 "k8s.io/api/core/v1"

	"mainstay.dev/mainstay/internal/apis/builtin"
	"mainstay.dev/mainstay/internal/feature"
)

// dropDisabledStatus clears the fields of disabled features, unless the old status uses them.
func dropDisabledStatus(gates feature.Gates, status, old *corev1.PodStatus) {
	builtin.DropDisabledFields(gates, []builtin.GatedFields[*corev1.PodStatus]{
		{Gate: feature.InPlacePodLevelResourcesVerticalScaling, Visit: statusResources},
		{Gate: feature.ResourceHealthStatusMessage, Visit: healthMessages},
		{Gate: feature.DRANodeAllocatableResources, Visit: nodeAllocatables},
		{Gate: feature.CSIVolumeHealth, Visit: volumeHealth},
		{Gate: feature.ImageVolumeWithDigest, Visit: imageVolumes},
	}, status, old)
}

// The following functions are hooks for GatedFields.Visit.

func statusResources(u *builtin.FieldVisitor, status *corev1.PodStatus) {
	builtin.VisitField(u, &status.Resources)
	builtin.VisitField(u, &status.AllocatedResources)
}

func healthMessages(u *builtin.FieldVisitor, status *corev1.PodStatus) {
	eachContainerStatus(status, func(c *corev1.ContainerStatus) {
		for i := range c.AllocatedResourcesStatus {
			resources := c.AllocatedResourcesStatus[i].Resources
			for j := range resources {
				builtin.VisitField(u, &resources[j].Message)
			}
		}
	})
}

func nodeAllocatables(u *builtin.FieldVisitor, status *corev1.PodStatus) {
	builtin.VisitField(u, &status.NodeAllocatableResourceClaimStatuses)
}

func volumeHealth(u *builtin.FieldVisitor, status *corev1.PodStatus) {
	builtin.VisitField(u, &status.VolumeHealth)
}

func imageVolumes(u *builtin.FieldVisitor, status *corev1.PodStatus) {
	eachContainerStatus(status, func(c *corev1.ContainerStatus) {
		for i := range c.VolumeMounts {
			builtin.VisitField(u, &c.VolumeMounts[i].VolumeStatus)
		}
	})
}

func eachContainerStatus(status *corev1.PodStatus, f func(*corev1.ContainerStatus)) {
	for _, statuses := range [...][]corev1.ContainerStatus{
		status.InitContainerStatuses, status.ContainerStatuses, status.EphemeralContainerStatuses,
	} {
		for i := range statuses {
			f(&statuses[i])
		}
	}
}
