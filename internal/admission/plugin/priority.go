package plugin

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/admission"
	"mainstay.dev/mainstay/internal/rest"
)

// PriorityClasses reads priority classes. It is safe for concurrent use.
type PriorityClasses interface {
	Getter[*schedulingv1.PriorityClass]
	Lister[*schedulingv1.PriorityClass]
}

// Priority sets the priority of new pods from their priority class or from the default class. It also rejects a
// second default class.
type Priority struct {
	onCreateOrUpdate
	Classes PriorityClasses
}

var (
	_ admission.Mutator   = Priority{}
	_ admission.Validator = Priority{}
)

func priorityPlugin() Registration {
	return Registration{
		Name: Priority{}.Name(), Description: "sets the priority of pods from their class, and rejects a second default class",
		OnByDefault: true,
		New: func(d Dependencies) admission.Plugin {
			return Priority{Classes: cached[*schedulingv1.PriorityClass](d, schedulingv1.SchemeGroupVersion, "priorityclasses")}
		},
	}
}

// Name implements admission.Plugin.
func (Priority) Name() string { return "Priority" }

// Mutate implements admission.Mutator.
func (p Priority) Mutate(ctx context.Context, a *admission.Attributes) error {
	pod := objectOf[corev1.Pod](a, "", "pods")
	switch {
	case pod == nil:
		return nil
	case a.Operation == admission.Update:
		keepPriority(&pod.Spec, oldOf[corev1.Pod](a))
		return nil
	}
	class, err := p.classOf(ctx, a, &pod.Spec)
	if err != nil {
		return err
	}
	return setPriority(a, &pod.Spec, class)
}

// keepPriority copies the values that the server set in the old pod, if the client omits them.
func keepPriority(spec *corev1.PodSpec, old *corev1.Pod) {
	if old == nil {
		return
	}
	if spec.Priority == nil {
		spec.Priority = old.Spec.Priority
	}
	if spec.PreemptionPolicy == nil {
		spec.PreemptionPolicy = old.Spec.PreemptionPolicy
	}
}

// classOf returns the priority class of a pod. If the pod names no class, it sets the name of the default class
// in the pod.
func (p Priority) classOf(ctx context.Context, a *admission.Attributes, spec *corev1.PodSpec) (*schedulingv1.PriorityClass, error) {
	if spec.PriorityClassName == "" {
		class, err := p.defaultClass(ctx)
		if err != nil {
			return nil, err
		}
		if class == nil {
			policy := corev1.PreemptLowerPriority
			class = &schedulingv1.PriorityClass{PreemptionPolicy: &policy}
		}
		spec.PriorityClassName = class.Name
		return class, nil
	}
	class, err := p.Classes.Get(ctx, types.NamespacedName{Name: spec.PriorityClassName})
	switch {
	case apierrors.IsNotFound(err):
		return nil, reject(a, fmt.Errorf("no PriorityClass with name %s was found", spec.PriorityClassName))
	case err != nil:
		return nil, fmt.Errorf("failed to get PriorityClass with name %s: %w", spec.PriorityClassName, err)
	}
	return class, nil
}

// defaultClass returns the default class, or nil if there is none. Concurrent writes can create two default
// classes; it then returns the one with the lower value.
func (p Priority) defaultClass(ctx context.Context) (*schedulingv1.PriorityClass, error) {
	var chosen *schedulingv1.PriorityClass
	for class, err := range p.Classes.List(ctx, "", rest.ListOptions{}) {
		if err != nil {
			return nil, fmt.Errorf("failed to get default priority class: %w", err)
		}
		if class.GlobalDefault && (chosen == nil || class.Value < chosen.Value) {
			chosen = class
		}
	}
	return chosen, nil
}

// setPriority sets the fields that are derived from the class. It returns an error if the pod already has
// different values.
func setPriority(a *admission.Attributes, spec *corev1.PodSpec, class *schedulingv1.PriorityClass) error {
	priority := class.Value
	if own := spec.Priority; own != nil && *own != priority {
		return reject(a, fmt.Errorf("the integer value of priority (%d) must not be provided in pod spec; "+
			"priority admission controller computed %d from the given PriorityClass name", *own, priority))
	}
	spec.Priority = &priority
	if class.PreemptionPolicy == nil {
		return nil
	}
	policy := *class.PreemptionPolicy
	if own := spec.PreemptionPolicy; own != nil && *own != policy {
		return reject(a, fmt.Errorf("the string value of PreemptionPolicy (%s) must not be provided in pod spec; "+
			"priority admission controller computed %s from the given PriorityClass name", *own, policy))
	}
	spec.PreemptionPolicy = &policy
	return nil
}

// Validate implements admission.Validator. It rejects a second default class.
func (p Priority) Validate(ctx context.Context, a *admission.Attributes) error {
	class := objectOf[schedulingv1.PriorityClass](a, schedulingv1.GroupName, "priorityclasses")
	if class == nil || !class.GlobalDefault {
		return nil
	}
	present, err := p.defaultClass(ctx)
	if err != nil {
		return err
	}
	if present != nil && (a.Operation == admission.Create || present.Name != class.Name) {
		return reject(a, fmt.Errorf("PriorityClass %s is already marked as default. Only one default can exist", present.Name))
	}
	return nil
}
