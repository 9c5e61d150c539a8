package plugin

import (
	"context"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"mainstay.dev/mainstay/internal/admission"
	"mainstay.dev/mainstay/internal/apis/builtin/podspec"
)

// ExtendedResourceToleration adds tolerations to pods that request extended resources, so that they can run on
// nodes that are reserved for these resources.
type ExtendedResourceToleration struct{ onCreateOrUpdate }

var _ admission.Mutator = ExtendedResourceToleration{}

func extendedResourceTolerationPlugin() Registration {
	return Registration{
		Name: ExtendedResourceToleration{}.Name(), Description: "adds tolerations for the extended resources that pods request",
		New: func(Dependencies) admission.Plugin { return ExtendedResourceToleration{} },
	}
}

// Name implements admission.Plugin.
func (ExtendedResourceToleration) Name() string { return "ExtendedResourceToleration" }

// Mutate implements admission.Mutator.
func (ExtendedResourceToleration) Mutate(_ context.Context, a *admission.Attributes) error {
	pod := objectOf[corev1.Pod](a, "", "pods")
	if pod == nil {
		return nil
	}
	asked := make(map[string]bool)
	for _, containers := range [...][]corev1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		for i := range containers {
			for name := range containers[i].Resources.Requests {
				if podspec.IsExtendedResource(name) {
					asked[string(name)] = true
				}
			}
		}
	}
	toleration := func(name string) corev1.Toleration {
		return corev1.Toleration{Key: name, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule}
	}
	for i := range pod.Spec.Tolerations { // replace tolerations that differ at most in tolerationSeconds
		own := &pod.Spec.Tolerations[i]
		if t := toleration(own.Key); asked[own.Key] && own.MatchToleration(&t) {
			*own = t
			delete(asked, own.Key)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(asked)) {
		pod.Spec.Tolerations = append(pod.Spec.Tolerations, toleration(name))
	}
	return nil
}
