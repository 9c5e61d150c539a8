package plugin

import (
	"context"

	corev1 "k8s.io/api/core/v1"

	"mainstay.dev/mainstay/internal/admission"
)

// TaintNodesByCondition adds the not-ready taint to new nodes. The taint prevents scheduling until the node
// lifecycle controller removes it.
type TaintNodesByCondition struct{ onCreate }

var _ admission.Mutator = TaintNodesByCondition{}

func taintNodesByConditionPlugin() Registration {
	return Registration{
		Name: TaintNodesByCondition{}.Name(), Description: "adds the not-ready taint to new nodes",
		OnByDefault: true,
		New:         func(Dependencies) admission.Plugin { return TaintNodesByCondition{} },
	}
}

// Name implements admission.Plugin.
func (TaintNodesByCondition) Name() string { return "TaintNodesByCondition" }

// Mutate implements admission.Mutator.
func (TaintNodesByCondition) Mutate(_ context.Context, a *admission.Attributes) error {
	node := objectOf[corev1.Node](a, "", "nodes")
	if node == nil {
		return nil
	}
	notReady := corev1.Taint{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoSchedule}
	for i := range node.Spec.Taints {
		if node.Spec.Taints[i].MatchTaint(&notReady) {
			return nil
		}
	}
	node.Spec.Taints = append(node.Spec.Taints, notReady)
	return nil
}
