package plugin

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/admission"
	"mainstay.dev/mainstay/internal/feature"
)

// PodTopologyLabels copies the zone and region labels of a node to bindings to this node, and to new pods that
// name the node. It overwrites existing values.
type PodTopologyLabels struct {
	onCreate
	Nodes Getter[*corev1.Node]
}

var _ admission.Mutator = PodTopologyLabels{}

func podTopologyLabelsPlugin() Registration {
	return Registration{
		Name: PodTopologyLabels{}.Name(), Description: "copies the zone and region labels of the node to pods",
		OnByDefault: true, Gate: feature.PodTopologyLabelsAdmission,
		New: func(d Dependencies) admission.Plugin { return PodTopologyLabels{Nodes: d.nodes()} },
	}
}

// Name implements admission.Plugin.
func (PodTopologyLabels) Name() string { return "PodTopologyLabels" }

// Mutate implements admission.Mutator.
func (p PodTopologyLabels) Mutate(ctx context.Context, a *admission.Attributes) error {
	if pod := objectOf[corev1.Pod](a, "", "pods"); pod != nil && pod.Spec.NodeName != "" {
		return p.label(ctx, pod.Spec.NodeName, &pod.Labels)
	}
	binding, ok := a.Object.(*corev1.Binding)
	if ok && isFor(a, "", "pods", "binding") && binding.Target.Kind == "Node" && binding.Target.Name != "" {
		return p.label(ctx, binding.Target.Name, &binding.Labels)
	}
	return nil
}

// label adds the labels of a node. It returns nil if the node does not exist, because pods can be bound to
// nodes that do not exist.
func (p PodTopologyLabels) label(ctx context.Context, nodeName string, labels *map[string]string) error {
	node, err := p.Nodes.Get(ctx, types.NamespacedName{Name: nodeName})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, label := range [...]string{corev1.LabelTopologyZone, corev1.LabelTopologyRegion} {
		value, ok := node.Labels[label]
		if !ok {
			continue
		}
		if *labels == nil {
			*labels = make(map[string]string)
		}
		(*labels)[label] = value
	}
	return nil
}
