package core

import (
	corev1 "k8s.io/api/core/v1"

	"mainstay.dev/mainstay/apis/builtin/podspec"
	"mainstay.dev/mainstay/feature"
)

// dropDisabledStatus drops the fields of features that are off, except for those
// that the old status uses.
func dropDisabledStatus(gates feature.Gates, status, old *corev1.PodStatus) {
	for _, gated := range [...]podspec.Gated[corev1.PodStatus]{
		{Gate: feature.InPlacePodLevelResourcesVerticalScaling, Take: statusResources},
		{Gate: feature.ResourceHealthStatusMessage, Take: healthMessages},
		{Gate: feature.DRANodeAllocatableResources, Take: nodeAllocatables},
		{Gate: feature.CSIVolumeHealth, Take: volumeHealth},
		{Gate: feature.ImageVolumeWithDigest, Take: imageVolumes},
	} {
		gated.Drop(gates, status, old)
	}
}

// Each of the following is a podspec.Gated's Take.

func statusResources(status *corev1.PodStatus, drop bool) bool {
	used := status.Resources != nil || status.AllocatedResources != nil
	if drop {
		status.Resources, status.AllocatedResources = nil, nil
	}
	return used
}

func healthMessages(status *corev1.PodStatus, drop bool) (used bool) {
	eachContainerStatus(status, func(c *corev1.ContainerStatus) {
		for i := range c.AllocatedResourcesStatus {
			resources := c.AllocatedResourcesStatus[i].Resources
			for j := range resources {
				used = used || resources[j].Message != nil
				if drop {
					resources[j].Message = nil
				}
			}
		}
	})
	return used
}

func nodeAllocatables(status *corev1.PodStatus, drop bool) bool {
	used := len(status.NodeAllocatableResourceClaimStatuses) > 0
	if drop {
		status.NodeAllocatableResourceClaimStatuses = nil
	}
	return used
}

func volumeHealth(status *corev1.PodStatus, drop bool) bool {
	used := len(status.VolumeHealth) > 0
	if drop {
		status.VolumeHealth = nil
	}
	return used
}

func imageVolumes(status *corev1.PodStatus, drop bool) (used bool) {
	eachContainerStatus(status, func(c *corev1.ContainerStatus) {
		for i := range c.VolumeMounts {
			used = used || c.VolumeMounts[i].VolumeStatus != nil
			if drop {
				c.VolumeMounts[i].VolumeStatus = nil
			}
		}
	})
	return used
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
