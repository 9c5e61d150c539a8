package core

import (
	corev1 "k8s.io/api/core/v1"

	"mainstay.dev/mainstay/internal/apis/builtin/podspec"
)

// completePodResources sets missing pod-level resources of a pod that has pod-level resources. It is not part
// of the defaults that are set during decoding, because admission plugins may add containers later.
func completePodResources(spec *corev1.PodSpec) {
	whole := spec.Resources
	if whole == nil || len(whole.Requests) == 0 && len(whole.Limits) == 0 {
		return
	}
	requests := podspec.TotalRequests(spec)
	limits := podspec.TotalLimits(spec)
	for name, quantity := range limits { // huge pages are not shared between containers
		if _, asked := whole.Requests[name]; !asked && podspec.IsHugePages(name) {
			addMissing(&whole.Limits, corev1.ResourceList{name: quantity})
		}
	}
	for _, name := range qosResources {
		if quantity, ok := requests[name]; ok {
			addMissing(&whole.Requests, corev1.ResourceList{name: quantity})
		}
	}
	for name, quantity := range whole.Limits {
		if isPodResource(name) {
			addMissing(&whole.Requests, corev1.ResourceList{name: quantity})
		}
	}
	for name, request := range whole.Requests {
		if !isPodResource(name) || !allLimit(spec, name) {
			continue
		}
		limit := limits[name]
		if request.Cmp(limit) > 0 {
			limit = request
		}
		addMissing(&whole.Limits, corev1.ResourceList{name: limit})
	}
}

// isPodResource reports whether a resource can be specified at pod level.
func isPodResource(name corev1.ResourceName) bool {
	return name == corev1.ResourceCPU || name == corev1.ResourceMemory || podspec.IsHugePages(name)
}

// allLimit reports whether every container has a limit for a resource.
func allLimit(spec *corev1.PodSpec, name corev1.ResourceName) bool {
	for _, containers := range [...][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range containers {
			if _, ok := containers[i].Resources.Limits[name]; !ok {
				return false
			}
		}
	}
	return len(spec.EphemeralContainers) == 0 // ephemeral containers have no limits
}
