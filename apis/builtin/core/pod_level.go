package core

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// completePodResources fills in what a pod asks for as a whole, where it says
// so in part. It is no default of decoding: admission may add containers, and
// all of them count.
func completePodResources(spec *corev1.PodSpec) {
	whole := spec.Resources
	if whole == nil || len(whole.Requests) == 0 && len(whole.Limits) == 0 {
		return
	}
	requests := totalResources(spec, func(c *corev1.Container) corev1.ResourceList { return c.Resources.Requests })
	limits := totalResources(spec, func(c *corev1.Container) corev1.ResourceList { return c.Resources.Limits })
	for name, quantity := range limits { // huge pages cannot be shared beyond what containers may have
		if _, asked := whole.Requests[name]; !asked && isHugePages(name) {
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

// isPodResource tells what can be asked for by a pod as a whole.
func isPodResource(name corev1.ResourceName) bool {
	return name == corev1.ResourceCPU || name == corev1.ResourceMemory || isHugePages(name)
}

func isHugePages(name corev1.ResourceName) bool {
	return strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix)
}

// totalResources is what the containers of a pod need at most at one time:
// all at work together, or before that one initializing beside those sidecars
// that were started by then.
func totalResources(spec *corev1.PodSpec, of func(*corev1.Container) corev1.ResourceList) corev1.ResourceList {
	running, sidecars, starting := corev1.ResourceList{}, corev1.ResourceList{}, corev1.ResourceList{}
	for i := range spec.Containers {
		addAll(running, of(&spec.Containers[i]))
	}
	for i := range spec.InitContainers {
		c := &spec.InitContainers[i]
		if policy := c.RestartPolicy; policy != nil && *policy == corev1.ContainerRestartPolicyAlways {
			addAll(running, of(c))
			addAll(sidecars, of(c))
			raise(starting, sidecars)
			continue
		}
		stage := sidecars.DeepCopy()
		addAll(stage, of(c))
		raise(starting, stage)
	}
	raise(running, starting)
	return running
}

func addAll(sum, list corev1.ResourceList) {
	for name, quantity := range list {
		total := sum[name].DeepCopy()
		total.Add(quantity)
		sum[name] = total
	}
}

// raise makes each quantity of to at least that of list.
func raise(to, list corev1.ResourceList) {
	for name, quantity := range list {
		if current, ok := to[name]; !ok || quantity.Cmp(current) > 0 {
			to[name] = quantity.DeepCopy()
		}
	}
}

// allLimit tells whether every container has a limit for a resource.
func allLimit(spec *corev1.PodSpec, name corev1.ResourceName) bool {
	for _, containers := range [...][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range containers {
			if _, ok := containers[i].Resources.Limits[name]; !ok {
				return false
			}
		}
	}
	return len(spec.EphemeralContainers) == 0 // these never have any
}
