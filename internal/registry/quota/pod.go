package quota

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"mainstay.dev/mainstay/internal/apis/builtin/podspec"
	"mainstay.dev/mainstay/internal/codec"
)

// implicitPrefix is the prefix of the extended resources for device classes in containers.
var implicitPrefix = strings.TrimPrefix(corev1.ResourceImplicitExtendedClaimsPerClass, corev1.DefaultResourceRequestsPrefix)

// isPodResource reports whether a quota resource limits pods.
func isPodResource(name corev1.ResourceName) bool {
	switch name {
	case corev1.ResourcePods, corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage,
		corev1.ResourceRequestsCPU, corev1.ResourceRequestsMemory, corev1.ResourceRequestsEphemeralStorage,
		corev1.ResourceLimitsCPU, corev1.ResourceLimitsMemory, corev1.ResourceLimitsEphemeralStorage:
		return true
	}
	requested, requests := strings.CutPrefix(string(name), corev1.DefaultResourceRequestsPrefix)
	return podspec.IsHugePages(name) || requests && (podspec.IsHugePages(corev1.ResourceName(requested)) || isExtended(requested))
}

// isExtended reports whether a resource name is outside the Kubernetes domain, or represents a device
// class.
func isExtended(name string) bool {
	return strings.HasPrefix(name, implicitPrefix) ||
		strings.Contains(name, "/") && !strings.Contains(name, corev1.ResourceDefaultNamespacePrefix)
}

// podUsage adds the usage of a pod. A terminated pod counts only as an object.
func podUsage(used corev1.ResourceList, obj codec.Object, now time.Time) {
	pod, ok := obj.(*corev1.Pod)
	if !ok || hasEnded(pod, now) {
		return
	}
	used[corev1.ResourcePods] = one()
	addCompute(used, podRequests(pod), podLimits(pod))
}

// hasEnded reports whether a pod has terminated or exceeded its deletion deadline. The deadline is necessary
// because the termination of a pod on a lost node is never confirmed.
func hasEnded(pod *corev1.Pod, now time.Time) bool {
	return pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded || isOverdue(pod, now)
}

// isOverdue reports whether a pod's deletion has exceeded its grace period.
func isOverdue(pod *corev1.Pod, now time.Time) bool {
	if pod.DeletionTimestamp == nil || pod.DeletionGracePeriodSeconds == nil {
		return false
	}
	return now.After(pod.DeletionTimestamp.Add(time.Duration(*pod.DeletionGracePeriodSeconds) * time.Second))
}

// addCompute adds requests and limits under the names of their quota resources.
func addCompute(used, requests, limits corev1.ResourceList) {
	for name, quantity := range requests {
		switch {
		case name == corev1.ResourceCPU, name == corev1.ResourceMemory, name == corev1.ResourceEphemeralStorage, podspec.IsHugePages(name):
			used[name] = quantity
			used[corev1.DefaultResourceRequestsPrefix+name] = quantity
		case podspec.IsExtendedResource(name), strings.HasPrefix(string(name), implicitPrefix):
			used[corev1.DefaultResourceRequestsPrefix+name] = quantity
		}
	}
	for _, name := range [...]corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage} {
		if quantity, ok := limits[name]; ok {
			used["limits."+name] = quantity
		}
	}
}

// podRequests returns the requests of a pod: the sum of the requests of its containers, or the pod-level
// requests if they are set, plus the overhead.
func podRequests(pod *corev1.Pod) corev1.ResourceList {
	statuses, infeasible := statusesOf(pod), isInfeasible(pod)
	total := podspec.Total(&pod.Spec, func(c *corev1.Container) corev1.ResourceList {
		status := statuses(c.Name)
		switch {
		case status == nil:
			return c.Resources.Requests
		case infeasible:
			return maxQuantities(actual(status).Requests, status.AllocatedResources)
		}
		return maxQuantities(c.Resources.Requests, actual(status).Requests, status.AllocatedResources)
	})
	if own := pod.Spec.Resources; own != nil {
		override(total, own.Requests)
	}
	for name, quantity := range pod.Spec.Overhead {
		add(total, name, quantity)
	}
	return total
}

// podLimits returns the limits of a pod. The overhead is added only to resources with a limit.
func podLimits(pod *corev1.Pod) corev1.ResourceList {
	statuses, infeasible := statusesOf(pod), isInfeasible(pod)
	total := podspec.Total(&pod.Spec, func(c *corev1.Container) corev1.ResourceList {
		status := statuses(c.Name)
		switch {
		case status == nil:
			return c.Resources.Limits
		case infeasible:
			return actual(status).Limits
		}
		return maxQuantities(c.Resources.Limits, actual(status).Limits)
	})
	if own := pod.Spec.Resources; own != nil {
		override(total, own.Limits)
	}
	for name, quantity := range pod.Spec.Overhead {
		if limit, ok := total[name]; ok && !limit.IsZero() {
			add(total, name, quantity)
		}
	}
	return total
}

// statusesOf returns a function that returns the status of a container, or nil. During a resize, a
// pod may have more resources than it requests.
func statusesOf(pod *corev1.Pod) func(name string) *corev1.ContainerStatus {
	var byName map[string]*corev1.ContainerStatus
	for _, list := range [...][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		if len(list) > 0 && byName == nil {
			byName = make(map[string]*corev1.ContainerStatus, len(list))
		}
		for i := range slices.Backward(list) { // the first status of a name applies
			byName[list[i].Name] = &list[i]
		}
	}
	return func(name string) *corev1.ContainerStatus { return byName[name] }
}

// isInfeasible reports whether a pod's resize exceeds the capacity of its node.
func isInfeasible(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodResizePending && c.Reason == corev1.PodReasonInfeasible
	})
}

// actual returns the actual resources of a container.
func actual(status *corev1.ContainerStatus) corev1.ResourceRequirements {
	if status.Resources == nil {
		return corev1.ResourceRequirements{}
	}
	return *status.Resources
}

// maxQuantities returns the maximum quantity of each resource. It returns the first list itself if
// all others are empty.
func maxQuantities(lists ...corev1.ResourceList) corev1.ResourceList {
	if !slices.ContainsFunc(lists[1:], func(l corev1.ResourceList) bool { return len(l) > 0 }) {
		return lists[0]
	}
	all := maps.Clone(lists[0])
	if all == nil {
		all = corev1.ResourceList{}
	}
	for _, list := range lists[1:] {
		for name, quantity := range list {
			if current, ok := all[name]; !ok || quantity.Cmp(current) > 0 {
				all[name] = quantity
			}
		}
	}
	return all
}

// override replaces the containers' total with pod-level resources.
func override(total, own corev1.ResourceList) {
	for name, quantity := range own {
		if isPodLevelResource(name) {
			total[name] = quantity
		}
	}
}

func isPodLevelResource(name corev1.ResourceName) bool {
	return name == corev1.ResourceCPU || name == corev1.ResourceMemory || podspec.IsHugePages(name)
}

func add(to corev1.ResourceList, name corev1.ResourceName, quantity resource.Quantity) {
	sum := to[name].DeepCopy()
	sum.Add(quantity)
	to[name] = sum
}

// podConstraints returns an error if a container of a new pod does not set a limited resource. As in
// kube-apiserver, only cpu and memory are required, although a comment in its source calls this a mistake.
// Nothing is required if the pod has pod-level resources.
func podConstraints(limited []corev1.ResourceName, obj codec.Object) error {
	pod, ok := obj.(*corev1.Pod)
	if !ok || hasPodLevelResources(pod) {
		return nil
	}
	var missing []string
	for _, name := range limited {
		if !isMandatory(name) {
			continue
		}
		var lacking []string
		for _, containers := range [...][]corev1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
			for i := range containers {
				if c := &containers[i]; !setsResource(&c.Resources, name) {
					lacking = append(lacking, c.Name)
				}
			}
		}
		if len(lacking) > 0 {
			slices.Sort(lacking)
			missing = append(missing, string(name)+" for: "+strings.Join(slices.Compact(lacking), ","))
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return errors.New("must specify " + strings.Join(missing, "; "))
}

func hasPodLevelResources(pod *corev1.Pod) bool {
	own := pod.Spec.Resources
	if own == nil {
		return false
	}
	for _, list := range [...]corev1.ResourceList{own.Requests, own.Limits} {
		for name := range list {
			if isPodLevelResource(name) {
				return true
			}
		}
	}
	return false
}

func isMandatory(name corev1.ResourceName) bool {
	switch name {
	case corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceRequestsCPU, corev1.ResourceRequestsMemory,
		corev1.ResourceLimitsCPU, corev1.ResourceLimitsMemory:
		return true
	}
	return false
}

// setsResource reports whether a container sets a request or limit for a quota resource.
func setsResource(r *corev1.ResourceRequirements, name corev1.ResourceName) bool {
	list := r.Requests
	bare := strings.TrimPrefix(string(name), corev1.DefaultResourceRequestsPrefix)
	if limited, ok := strings.CutPrefix(bare, "limits."); ok {
		list, bare = r.Limits, limited
	}
	_, ok := list[corev1.ResourceName(bare)]
	return ok
}
