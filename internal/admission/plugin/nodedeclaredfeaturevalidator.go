package plugin

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"mainstay.dev/mainstay/internal/admission"
)

// NodeDeclaredFeatureValidator rejects changes to running pods that require a feature which their node has not
// declared (KEP-5328).
type NodeDeclaredFeatureValidator struct {
	onUpdate
	Nodes Getter[*corev1.Node]
}

var _ admission.Validator = NodeDeclaredFeatureValidator{}

func nodeDeclaredFeatureValidatorPlugin() Registration {
	return Registration{
		Name: NodeDeclaredFeatureValidator{}.Name(), Description: "rejects pod updates that require features which the node does not declare",
		OnByDefault: true,
		New:         func(d Dependencies) admission.Plugin { return NodeDeclaredFeatureValidator{Nodes: d.nodes()} },
	}
}

// Name implements admission.Plugin.
func (NodeDeclaredFeatureValidator) Name() string { return "NodeDeclaredFeatureValidator" }

// Validate implements admission.Validator.
func (p NodeDeclaredFeatureValidator) Validate(ctx context.Context, a *admission.Attributes) error {
	if !isFor(a, "", "pods", "") && !isFor(a, "", "pods", "resize") {
		return nil
	}
	pod, _ := a.Object.(*corev1.Pod)
	old := oldOf[corev1.Pod](a)
	if pod == nil || old == nil || pod.Spec.NodeName == "" {
		return nil
	}
	needed := featuresOfChange(&pod.Spec, &old.Spec)
	if len(needed) == 0 {
		return nil
	}
	node, err := nodeOf(ctx, a, p.Nodes, pod)
	if err != nil {
		return err
	}
	missing := slices.DeleteFunc(needed, func(name string) bool { return slices.Contains(node.Status.DeclaredFeatures, name) })
	if len(missing) > 0 {
		return reject(a, fmt.Errorf("pod update requires features %s which are not available on node %q", strings.Join(missing, ", "), node.Name))
	}
	return nil
}

// featuresOfChange returns the names of the features that a node must declare to apply a change to a pod,
// sorted.
func featuresOfChange(spec, old *corev1.PodSpec) []string {
	var needed []string
	need := func(feature string, changed bool) {
		if changed {
			needed = append(needed, feature)
		}
	}
	need("InPlacePodLevelResourcesVerticalScaling", spec.Resources != old.Resources && !equality.Semantic.DeepEqual(spec.Resources, old.Resources))
	need("InPlacePodVerticalScalingInitContainers", resizesInit(spec.InitContainers, old.InitContainers))
	need("InPlacePodVerticalScalingMemoryBackedVolumes", resizesMemory(spec.Volumes, old.Volumes))
	return needed
}

// resizesInit reports whether an init container other than a sidecar is resized.
func resizesInit(containers, old []corev1.Container) bool {
	for i := range min(len(containers), len(old)) {
		was, policy := &old[i], old[i].RestartPolicy
		sidecar := policy != nil && *policy == corev1.ContainerRestartPolicyAlways
		if !sidecar && !equality.Semantic.DeepEqual(was.Resources, containers[i].Resources) {
			return true
		}
	}
	return false
}

// resizesMemory reports whether a memory-backed emptyDir volume is resized.
func resizesMemory(volumes, old []corev1.Volume) bool {
	if len(volumes) != len(old) {
		return false
	}
	for i := range volumes {
		now, was := volumes[i].EmptyDir, old[i].EmptyDir
		if volumes[i].Name != old[i].Name || now == nil || was == nil || now.Medium != corev1.StorageMediumMemory {
			continue
		}
		if now.SizeLimit != nil && was.SizeLimit != nil && now.SizeLimit.Cmp(*was.SizeLimit) != 0 {
			return true
		}
	}
	return false
}
