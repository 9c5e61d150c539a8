package quota

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"mainstay.dev/mainstay/internal/codec"
)

// selectors returns the scopes of a quota as selectors, including the scopes in the older field.
func selectors(spec *corev1.ResourceQuotaSpec) []corev1.ScopedResourceSelectorRequirement {
	if len(spec.Scopes) == 0 && spec.ScopeSelector == nil {
		return nil
	}
	var all []corev1.ScopedResourceSelectorRequirement
	for _, scope := range spec.Scopes {
		all = append(all, corev1.ScopedResourceSelectorRequirement{ScopeName: scope, Operator: corev1.ScopeSelectorOpExists})
	}
	if spec.ScopeSelector != nil {
		all = append(all, spec.ScopeSelector.MatchExpressions...)
	}
	return all
}

// inScopes reports whether an object is in all scopes of a quota.
func (e *evaluator) inScopes(spec *corev1.ResourceQuotaSpec, obj codec.Object) bool {
	for _, s := range selectors(spec) {
		if e.scope == nil || !e.scope(s, obj) {
			return false
		}
	}
	return true
}

// scopesOf returns the scopes that contain an object.
func (e *evaluator) scopesOf(all []corev1.ScopedResourceSelectorRequirement, obj codec.Object) []corev1.ScopedResourceSelectorRequirement {
	var in []corev1.ScopedResourceSelectorRequirement
	for _, s := range all {
		if e.scope != nil && e.scope(s, obj) {
			in = append(in, s)
		}
	}
	return in
}

func podInScope(s corev1.ScopedResourceSelectorRequirement, obj codec.Object) bool {
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return false
	}
	switch s.ScopeName {
	case corev1.ResourceQuotaScopeTerminating:
		return isTerminating(pod)
	case corev1.ResourceQuotaScopeNotTerminating:
		return !isTerminating(pod)
	case corev1.ResourceQuotaScopeBestEffort:
		return isBestEffort(pod)
	case corev1.ResourceQuotaScopeNotBestEffort:
		return !isBestEffort(pod)
	case corev1.ResourceQuotaScopePriorityClass:
		return matches(s, pod.Spec.PriorityClassName)
	case corev1.ResourceQuotaScopeCrossNamespacePodAffinity:
		return crossesNamespaces(pod.Spec.Affinity)
	}
	return false
}

// claimInScope compares a scope with each attributes class of a claim: desired, current and target.
func claimInScope(s corev1.ScopedResourceSelectorRequirement, obj codec.Object) bool {
	claim, ok := obj.(*corev1.PersistentVolumeClaim)
	if !ok || s.ScopeName != corev1.ResourceQuotaScopeVolumeAttributesClass {
		return false
	}
	var classes []string
	for _, class := range [...]*string{claim.Spec.VolumeAttributesClassName, claim.Status.CurrentVolumeAttributesClassName} {
		if class != nil && *class != "" {
			classes = append(classes, *class)
		}
	}
	if m := claim.Status.ModifyVolumeStatus; m != nil && m.TargetVolumeAttributesClassName != "" {
		classes = append(classes, m.TargetVolumeAttributesClassName)
	}
	if len(classes) == 0 {
		return matches(s, "")
	}
	return slices.ContainsFunc(classes, func(class string) bool { return matches(s, class) })
}

// matches reports whether a selector selects a value; "" means that the object has no value. As with
// label selectors, such an object matches NotIn and does not match In.
func matches(s corev1.ScopedResourceSelectorRequirement, value string) bool {
	switch s.Operator {
	case corev1.ScopeSelectorOpExists:
		return value != ""
	case corev1.ScopeSelectorOpDoesNotExist:
		return value == ""
	case corev1.ScopeSelectorOpIn:
		return value != "" && slices.Contains(s.Values, value)
	case corev1.ScopeSelectorOpNotIn:
		return value == "" || !slices.Contains(s.Values, value)
	}
	return false
}

// isTerminating reports whether a pod has an active deadline.
func isTerminating(pod *corev1.Pod) bool {
	deadline := pod.Spec.ActiveDeadlineSeconds
	return deadline != nil && *deadline >= 0
}

// isBestEffort reports whether a pod has neither requests nor limits for cpu and memory.
func isBestEffort(pod *corev1.Pod) bool {
	if pod.Status.QOSClass != "" {
		return pod.Status.QOSClass == corev1.PodQOSBestEffort
	}
	if own := pod.Spec.Resources; own != nil {
		return requestsNothing(own)
	}
	for _, containers := range [...][]corev1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		for i := range containers {
			if !requestsNothing(&containers[i].Resources) {
				return false
			}
		}
	}
	return true
}

func requestsNothing(r *corev1.ResourceRequirements) bool {
	for _, list := range [...]corev1.ResourceList{r.Requests, r.Limits} {
		for _, name := range [...]corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
			if quantity, ok := list[name]; ok && quantity.Sign() > 0 {
				return false
			}
		}
	}
	return true
}

// crossesNamespaces reports whether a term of a pod's affinity selects pods of other namespaces.
func crossesNamespaces(affinity *corev1.Affinity) bool {
	if affinity == nil {
		return false
	}
	crosses := func(required []corev1.PodAffinityTerm, preferred []corev1.WeightedPodAffinityTerm) bool {
		term := func(t *corev1.PodAffinityTerm) bool { return len(t.Namespaces) > 0 || t.NamespaceSelector != nil }
		return slices.ContainsFunc(required, func(t corev1.PodAffinityTerm) bool { return term(&t) }) ||
			slices.ContainsFunc(preferred, func(t corev1.WeightedPodAffinityTerm) bool { return term(&t.PodAffinityTerm) })
	}
	to, from := affinity.PodAffinity, affinity.PodAntiAffinity
	return to != nil && crosses(to.RequiredDuringSchedulingIgnoredDuringExecution, to.PreferredDuringSchedulingIgnoredDuringExecution) ||
		from != nil && crosses(from.RequiredDuringSchedulingIgnoredDuringExecution, from.PreferredDuringSchedulingIgnoredDuringExecution)
}
