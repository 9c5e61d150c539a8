package core

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"mainstay.dev/mainstay/internal/apis/builtin"
	"mainstay.dev/mainstay/internal/apis/builtin/validation"
	"mainstay.dev/mainstay/internal/feature"
)

// podResize declares the /resize subresource, which changes the resources of running containers.
func podResize() builtin.Subresource {
	return podPart("resize", func(to, sent *corev1.Pod) {
		to.Spec.Containers = resized(to.Spec.Containers, sent.Spec.Containers)
		to.Spec.InitContainers = resized(to.Spec.InitContainers, sent.Spec.InitContainers)
		if sent.Spec.Resources != nil {
			to.Spec.Resources = sent.Spec.Resources
		}
		completePodResources(&to.Spec)
	}, validateResize)
}

// resized returns copies of the old containers with the requested resources and resize policies. If the name
// of a requested container differs from the old container with the same index, the result contains the
// requested container, so that validation rejects the request.
func resized(old, sent []corev1.Container) []corev1.Container {
	containers := make([]corev1.Container, len(sent))
	for i := range sent {
		containers[i] = sent[i]
		if i < len(old) && old[i].Name == sent[i].Name {
			containers[i] = old[i]
			containers[i].Resources, containers[i].ResizePolicy = sent[i].Resources, sent[i].ResizePolicy
		}
	}
	return containers
}

func validateResize(f validation.Field, pod, old *corev1.Pod) {
	switch {
	case isMirror(old):
		f.Child("").Forbidden("static pods cannot be resized")
		return
	case old.Spec.OS != nil && old.Spec.OS.Name == corev1.Windows:
		f.Child("").Forbidden("windows pods cannot be resized")
		return
	case (hasResources(&pod.Spec) || hasResources(&old.Spec)) && !f.Enabled(feature.InPlacePodLevelResourcesVerticalScaling):
		f.Child("").Forbidden("pods with pod-level resources cannot be resized")
		return
	}
	validateWholePod(f, pod, old)
	spec := f.Child("spec")
	class := old.Status.QOSClass
	if class == "" {
		class = qosClass(&old.Spec)
	}
	if qosClass(&pod.Spec) != class {
		spec.Invalid(pod.Status.QOSClass, "Pod QOS Class may not change as a result of resizing")
	}
	if !canResize(old) {
		spec.Forbidden("Pod running on node without support for resize")
	}
	before := f.ErrorCount()
	spec.Add(validateSameContainers(pod.Spec.Containers, old.Spec.Containers, spec.Child("containers").Path())...)
	spec.Add(validateSameContainers(pod.Spec.InitContainers, old.Spec.InitContainers, spec.Child("initContainers").Path())...)
	if f.ErrorCount() > before {
		return
	}
	if !f.Enabled(feature.InPlacePodVerticalScalingInitContainers) && changesInit(&pod.Spec, &old.Spec) {
		spec.Forbidden("resources for non-sidecar init containers are immutable")
	}
	spec.Add(validateResources(pod, old, spec.Path())...)
	validateRest(spec, withoutResizable(&pod.Spec), withoutResizable(&old.Spec))
}

// validateRest requires that nothing except resizable resources has changed. The caller has removed these
// resources from both arguments.
func validateRest(f validation.Field, spec, old *corev1.PodSpec) {
	for i := range old.InitContainers {
		if validation.Changed(&spec.InitContainers[i], &old.InitContainers[i]) {
			f.Child("initContainers").Index(i).Forbidden("only cpu and memory resources for init or sidecar containers are mutable")
		}
		spec.InitContainers[i] = old.InitContainers[i]
	}
	if !equality.Semantic.DeepEqual(spec.Resources, old.Resources) {
		f.Forbidden("only cpu and memory resources are mutable at pod-level")
		spec.Resources = old.Resources
	}
	if validation.Changed(spec, old) {
		f.Forbidden("only cpu and memory resources are mutable")
	}
}

// hasResources reports whether a pod has pod-level requests or limits.
func hasResources(spec *corev1.PodSpec) bool {
	return spec.Resources != nil && len(spec.Resources.Requests)+len(spec.Resources.Limits) > 0
}

// changesInit reports whether the resources of an init container that is not a sidecar have changed.
func changesInit(spec, old *corev1.PodSpec) bool {
	for i := range old.InitContainers {
		policy := old.InitContainers[i].RestartPolicy
		sidecar := policy != nil && *policy == corev1.ContainerRestartPolicyAlways
		if !sidecar && validation.Changed(&spec.InitContainers[i], &old.InitContainers[i]) {
			return true
		}
	}
	return false
}

// canResize reports whether a pod can be resized. This requires that no container is running, or that the
// kubelet reports the actual resources of the first running container.
func canResize(pod *corev1.Pod) bool {
	for i := range pod.Status.ContainerStatuses {
		if status := &pod.Status.ContainerStatuses[i]; status.State.Running != nil {
			return status.Resources != nil
		}
	}
	return true
}

func validateSameContainers(containers, old []corev1.Container, path *field.Path) field.ErrorList {
	if len(containers) != len(old) {
		return field.ErrorList{field.Forbidden(path, "containers may not be added or removed on resize")}
	}
	var errs field.ErrorList
	for i := range old {
		if containers[i].Name != old[i].Name {
			errs = append(errs, field.Forbidden(path.Index(i).Child("name"), "containers may not be renamed or reordered on resize"))
		}
	}
	return errs
}

// validateResources rejects the removal of requests and limits, because kubelets cannot remove them from
// running containers.
func validateResources(pod, old *corev1.Pod, spec *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i := range old.Spec.Containers {
		path := spec.Child("containers").Index(i).Child("resources")
		errs = append(errs, validateNoneRemoved(&pod.Spec.Containers[i].Resources, &old.Spec.Containers[i].Resources, path, "")...)
	}
	for i := range old.Spec.InitContainers {
		path := spec.Child("initContainers").Index(i).Child("resources")
		errs = append(errs, validateNoneRemoved(&pod.Spec.InitContainers[i].Resources, &old.Spec.InitContainers[i].Resources, path, "")...)
	}
	if old.Spec.Resources != nil {
		now := pod.Spec.Resources
		if now == nil {
			now = &corev1.ResourceRequirements{}
		}
		errs = append(errs, validateNoneRemoved(now, old.Spec.Resources, spec.Child("resources"), "pod-level ")...)
	}
	return errs
}

// validateNoneRemoved rejects the removal of requests and limits. prefix precedes the word "resource" in error
// messages.
func validateNoneRemoved(now, old *corev1.ResourceRequirements, path *field.Path, prefix string) field.ErrorList {
	var errs field.ErrorList
	if anyRemoved(now.Requests, old.Requests) {
		errs = append(errs, field.Forbidden(path.Child("requests"), prefix+"resource requests cannot be removed"))
	}
	if anyRemoved(now.Limits, old.Limits) {
		errs = append(errs, field.Forbidden(path.Child("limits"), prefix+"resource limits cannot be removed"))
	}
	return errs
}

func anyRemoved(now, old corev1.ResourceList) bool {
	for name := range old {
		if _, ok := now[name]; !ok {
			return true
		}
	}
	return false
}

// withoutResizable returns a copy of spec without the resources that a resize may change.
func withoutResizable(spec *corev1.PodSpec) *corev1.PodSpec {
	rest := spec.DeepCopy()
	for _, containers := range [][]corev1.Container{rest.Containers, rest.InitContainers} {
		for i := range containers {
			dropResizable(&containers[i].Resources)
		}
	}
	if rest.Resources != nil {
		dropResizable(rest.Resources)
		if equality.Semantic.DeepEqual(rest.Resources, &corev1.ResourceRequirements{}) {
			rest.Resources = nil
		}
	}
	return rest
}

func dropResizable(r *corev1.ResourceRequirements) {
	for _, name := range qosResources {
		delete(r.Requests, name)
		delete(r.Limits, name)
	}
}
