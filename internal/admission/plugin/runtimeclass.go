package plugin

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/admission"
)

// RuntimeClass sets the overhead and the node constraints of new pods from their runtime class.
type RuntimeClass struct {
	onCreate
	Classes Getter[*nodev1.RuntimeClass]
}

var (
	_ admission.Mutator   = RuntimeClass{}
	_ admission.Validator = RuntimeClass{}
)

func runtimeClassPlugin() Registration {
	return Registration{
		Name: RuntimeClass{}.Name(), Description: "adds the overhead and scheduling rules of the runtime class to pods",
		OnByDefault: true,
		New: func(d Dependencies) admission.Plugin {
			return RuntimeClass{Classes: cached[*nodev1.RuntimeClass](d, nodev1.SchemeGroupVersion, "runtimeclasses")}
		},
	}
}

// Name implements admission.Plugin.
func (RuntimeClass) Name() string { return "RuntimeClass" }

// Mutate implements admission.Mutator.
func (p RuntimeClass) Mutate(ctx context.Context, a *admission.Attributes) error {
	pod := objectOf[corev1.Pod](a, "", "pods")
	if pod == nil {
		return nil
	}
	class, err := p.classOf(ctx, a, pod)
	if class == nil || err != nil {
		return err
	}
	if overhead := overheadOf(class); overhead != nil {
		if pod.Spec.Overhead != nil && !equality.Semantic.DeepEqual(overhead, pod.Spec.Overhead) {
			return reject(a, errOverheadDiffers())
		}
		pod.Spec.Overhead = overhead.DeepCopy()
	}
	return schedule(a, &pod.Spec, class.Scheduling)
}

// classOf returns the class of a pod, or nil if the pod has no class.
func (p RuntimeClass) classOf(ctx context.Context, a *admission.Attributes, pod *corev1.Pod) (*nodev1.RuntimeClass, error) {
	name := pod.Spec.RuntimeClassName
	if name == nil {
		return nil, nil
	}
	class, err := p.Classes.Get(ctx, types.NamespacedName{Name: *name})
	if apierrors.IsNotFound(err) {
		return nil, reject(a, fmt.Errorf("pod rejected: RuntimeClass %q not found", *name))
	}
	return class, err
}

// overheadOf returns the pod overhead that a class defines, or nil if class is nil or defines no overhead.
func overheadOf(class *nodev1.RuntimeClass) corev1.ResourceList {
	if class == nil || class.Overhead == nil {
		return nil
	}
	if class.Overhead.PodFixed == nil {
		return corev1.ResourceList{}
	}
	return class.Overhead.PodFixed
}

func errOverheadDiffers() error {
	return errors.New("pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead")
}

// schedule adds the node constraints of a class to a pod.
func schedule(a *admission.Attributes, spec *corev1.PodSpec, scheduling *nodev1.Scheduling) error {
	if scheduling == nil {
		return nil
	}
	for _, key := range slices.Sorted(maps.Keys(scheduling.NodeSelector)) {
		value := scheduling.NodeSelector[key]
		if own, ok := spec.NodeSelector[key]; ok && own != value {
			return reject(a, fmt.Errorf("conflict: runtimeClass.scheduling.nodeSelector[%s] = %s; pod.spec.nodeSelector[%s] = %s", key, value, key, own))
		}
	}
	if spec.NodeSelector == nil && scheduling.NodeSelector != nil {
		spec.NodeSelector = make(map[string]string, len(scheduling.NodeSelector))
	}
	maps.Copy(spec.NodeSelector, scheduling.NodeSelector)
	merged, err := mergeTolerations(spec.Tolerations, scheduling.Tolerations)
	if err != nil {
		return reject(a, err)
	}
	spec.Tolerations = merged
	return nil
}

// Validate implements admission.Validator. It compares the overhead of the pod with the overhead of the class,
// because webhooks may have changed the pod.
func (p RuntimeClass) Validate(ctx context.Context, a *admission.Attributes) error {
	pod := objectOf[corev1.Pod](a, "", "pods")
	if pod == nil {
		return nil
	}
	class, err := p.classOf(ctx, a, pod)
	if err != nil {
		return err
	}
	overhead := overheadOf(class)
	switch {
	case overhead == nil && pod.Spec.Overhead != nil:
		return reject(a, errors.New("pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"))
	case overhead != nil && !equality.Semantic.DeepEqual(overhead, pod.Spec.Overhead):
		return reject(a, errOverheadDiffers())
	}
	return nil
}
