package podspec

import (
	corev1 "k8s.io/api/core/v1"
)

// TotalRequests returns the maximum total of the requests of containers that run at the same time.
func TotalRequests(spec *corev1.PodSpec) corev1.ResourceList {
	return Total(spec, func(c *corev1.Container) corev1.ResourceList { return c.Resources.Requests })
}

// TotalLimits returns the maximum total of the limits of containers that run at the same time.
func TotalLimits(spec *corev1.PodSpec) corev1.ResourceList {
	return Total(spec, func(c *corev1.Container) corev1.ResourceList { return c.Resources.Limits })
}

// Total returns the maximum total of the resources of containers that run at the same time: all
// containers and sidecars, or one init container and the sidecars that start before it. of returns
// the resources of one container.
func Total(spec *corev1.PodSpec, of func(*corev1.Container) corev1.ResourceList) corev1.ResourceList {
	running, sidecars, starting := corev1.ResourceList{}, corev1.ResourceList{}, corev1.ResourceList{}
	for i := range spec.Containers {
		addAll(running, of(&spec.Containers[i]))
	}
	for i := range spec.InitContainers {
		c := &spec.InitContainers[i]
		if restartable(c) {
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

// raise sets each quantity in to to the maximum of to and list.
func raise(to, list corev1.ResourceList) {
	for name, quantity := range list {
		if current, ok := to[name]; !ok || quantity.Cmp(current) > 0 {
			to[name] = quantity.DeepCopy()
		}
	}
}
