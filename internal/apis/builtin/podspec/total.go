package podspec

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// TotalRequests returns, for each resource, the maximum total request of containers that run at the same time.
func TotalRequests(spec *corev1.PodSpec) corev1.ResourceList {
	return Total(spec, func(c *corev1.Container) corev1.ResourceList { return c.Resources.Requests })
}

// TotalLimits returns, for each resource, the maximum total limit of containers that run at the same time.
func TotalLimits(spec *corev1.PodSpec) corev1.ResourceList {
	return Total(spec, func(c *corev1.Container) corev1.ResourceList { return c.Resources.Limits })
}

// Total returns, for each resource, the maximum total of containers that run at the same time. These are
// either all containers and sidecars, or one init container and the sidecars that start before it. of returns
// the resources of one container.
func Total(spec *corev1.PodSpec, of func(*corev1.Container) corev1.ResourceList) corev1.ResourceList {
	running, sidecars, starting := corev1.ResourceList{}, corev1.ResourceList{}, corev1.ResourceList{}
	for i := range spec.Containers {
		addAll(running, of(&spec.Containers[i]))
	}
	for i := range spec.InitContainers {
		c := &spec.InitContainers[i]
		list := of(c)
		// starting already includes the total of the previous sidecars, so only the resources of c can raise
		// it.
		for name, quantity := range list {
			total := sidecars[name].DeepCopy()
			total.Add(quantity)
			raise(starting, name, total)
		}
		if restartable(c) {
			addAll(running, list)
			addAll(sidecars, list)
		}
	}
	for name, quantity := range starting {
		raise(running, name, quantity)
	}
	return running
}

func addAll(sum, list corev1.ResourceList) {
	for name, quantity := range list {
		total := sum[name].DeepCopy()
		total.Add(quantity)
		sum[name] = total
	}
}

// raise sets the quantity of a resource in list to the given quantity if this is higher.
func raise(list corev1.ResourceList, name corev1.ResourceName, quantity resource.Quantity) {
	if current, ok := list[name]; !ok || quantity.Cmp(current) > 0 {
		list[name] = quantity
	}
}
