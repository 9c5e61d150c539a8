package plugin

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"mainstay.dev/mainstay/internal/admission"
)

// LimitPodHardAntiAffinityTopology rejects pods whose required anti-affinity uses a topology key other than the
// host name.
type LimitPodHardAntiAffinityTopology struct{ onCreateOrUpdate }

var _ admission.Validator = LimitPodHardAntiAffinityTopology{}

func limitPodHardAntiAffinityTopologyPlugin() Registration {
	return Registration{
		Name: LimitPodHardAntiAffinityTopology{}.Name(), Description: "rejects pods with required anti-affinity for a topology key other than the host name",
		New: func(Dependencies) admission.Plugin { return LimitPodHardAntiAffinityTopology{} },
	}
}

// Name implements admission.Plugin.
func (LimitPodHardAntiAffinityTopology) Name() string { return "LimitPodHardAntiAffinityTopology" }

// Validate implements admission.Validator.
func (LimitPodHardAntiAffinityTopology) Validate(_ context.Context, a *admission.Attributes) error {
	pod := objectOf[corev1.Pod](a, "", "pods")
	if pod == nil || pod.Spec.Affinity == nil || pod.Spec.Affinity.PodAntiAffinity == nil {
		return nil
	}
	terms := pod.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	for i := range terms {
		if key := terms[i].TopologyKey; key != corev1.LabelHostname {
			return reject(a, fmt.Errorf("affinity.PodAntiAffinity.RequiredDuringScheduling has TopologyKey %s but only key %s is allowed", key, corev1.LabelHostname))
		}
	}
	return nil
}
