package core

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// qosResources contains the resources that determine the QoS class.
var qosResources = [...]corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory}

// qosClass returns the quality of service class. It is Guaranteed if all containers have limits that equal
// their requests, BestEffort if no container has requests or limits, and Burstable otherwise.
func qosClass(spec *corev1.PodSpec) corev1.PodQOSClass {
	requests, limits := corev1.ResourceList{}, corev1.ResourceList{}
	limited := true // whether all containers have limits for all qosResources
	add := func(r *corev1.ResourceRequirements) {
		addPositive(requests, r.Requests)
		if addPositive(limits, r.Limits) < len(qosResources) {
			limited = false
		}
	}
	if spec.Resources != nil {
		add(spec.Resources)
	} else {
		for i := range spec.Containers {
			add(&spec.Containers[i].Resources)
		}
		for i := range spec.InitContainers {
			add(&spec.InitContainers[i].Resources)
		}
	}
	switch {
	case len(requests) == 0 && len(limits) == 0:
		return corev1.PodQOSBestEffort
	case limited && len(requests) == len(limits) && sameQuantities(requests, limits):
		return corev1.PodQOSGuaranteed
	}
	return corev1.PodQOSBurstable
}

// addPositive adds the positive quantities of CPU and memory in list to sum. It returns the number of
// quantities that it added.
func addPositive(sum, list corev1.ResourceList) int {
	count := 0
	for _, name := range qosResources {
		quantity, ok := list[name]
		if !ok || quantity.Cmp(resource.Quantity{}) <= 0 {
			continue
		}
		count++
		total := sum[name].DeepCopy()
		total.Add(quantity)
		sum[name] = total
	}
	return count
}

func sameQuantities(a, b corev1.ResourceList) bool {
	for name, quantity := range a {
		if other, ok := b[name]; !ok || quantity.Cmp(other) != 0 {
			return false
		}
	}
	return true
}
