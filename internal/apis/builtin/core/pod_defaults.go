package core

import (
	corev1 "k8s.io/api/core/v1"

	"mainstay.dev/mainstay/internal/apis/builtin"
	"mainstay.dev/mainstay/internal/apis/builtin/podspec"
)

// defaultPod sets the defaults of a pod, including those that do not apply to pod templates.
func defaultPod(pod *corev1.Pod) {
	alignPodIPs(pod)
	spec := &pod.Spec
	for _, containers := range [...][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range containers {
			addMissing(&containers[i].Resources.Requests, containers[i].Resources.Limits)
			if spec.HostNetwork {
				defaultHostPorts(containers[i].Ports)
			}
		}
	}
	if period := spec.TerminationGracePeriodSeconds; period != nil && *period < 0 {
		spec.TerminationGracePeriodSeconds = new(int64(1))
	}
	builtin.SetDefault(&spec.EnableServiceLinks, corev1.DefaultEnableServiceLinks)
	podspec.Default(spec)
	roundPodStatus(&pod.Status)
}

// defaultHostPorts sets unset host ports to the container ports. It applies to containers that use the host
// network.
func defaultHostPorts(ports []corev1.ContainerPort) {
	for i := range ports {
		builtin.SetDefaultValue(&ports[i].HostPort, ports[i].ContainerPort)
	}
}

func roundPodStatus(status *corev1.PodStatus) {
	for _, containers := range [...][]corev1.ContainerStatus{
		status.InitContainerStatuses, status.ContainerStatuses, status.EphemeralContainerStatuses,
	} {
		for i := range containers {
			podspec.RoundUpQuantities(containers[i].AllocatedResources)
			podspec.RoundUpRequirements(containers[i].Resources)
		}
	}
	podspec.RoundUpQuantities(status.AllocatedResources)
	podspec.RoundUpRequirements(status.Resources)
}
