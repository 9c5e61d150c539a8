package core

import (
	corev1 "k8s.io/api/core/v1"

	"mainstay.dev/mainstay/internal/apis/builtin"
	"mainstay.dev/mainstay/internal/feature"
)

// dropDisabledStatus drops the fields of disabled features, except those that the old status has.
func dropDisabledStatus(gates feature.Gates, status, old *corev1.PodStatus) {
	builtin.DropDisabled(gates, []builtin.Gated[corev1.PodStatus]{
		{Gate: feature.InPlacePodLevelResourcesVerticalScaling, Fields: statusResources},
		{Gate: feature.ResourceHealthStatusMessage, Fields: healthMessages},
		{Gate: feature.DRANodeAllocatableResources, Fields: nodeAllocatables},
		{Gate: feature.CSIVolumeHealth, Fields: volumeHealth},
		{Gate: feature.ImageVolumeWithDigest, Fields: imageVolumes},
	}, status, old)
}

// Each of the following is a Fields of a builtin.Gated.

func statusResources(u *builtin.Use, status *corev1.PodStatus) {
	builtin.Take(u, &status.Resources)
	builtin.Take(u, &status.AllocatedResources)
}

func healthMessages(u *builtin.Use, status *corev1.PodStatus) {
	eachContainerStatus(status, func(c *corev1.ContainerStatus) {
		for i := range c.AllocatedResourcesStatus {
			resources := c.AllocatedResourcesStatus[i].Resources
			for j := range resources {
				builtin.Take(u, &resources[j].Message)
			}
		}
	})
}

func nodeAllocatables(u *builtin.Use, status *corev1.PodStatus) {
	builtin.Take(u, &status.NodeAllocatableResourceClaimStatuses)
}

func volumeHealth(u *builtin.Use, status *corev1.PodStatus) {
	builtin.Take(u, &status.VolumeHealth)
}

func imageVolumes(u *builtin.Use, status *corev1.PodStatus) {
	eachContainerStatus(status, func(c *corev1.ContainerStatus) {
		for i := range c.VolumeMounts {
			builtin.Take(u, &c.VolumeMounts[i].VolumeStatus)
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
