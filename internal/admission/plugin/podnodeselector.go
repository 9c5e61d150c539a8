package plugin

import (
	"context"
	"errors"
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/admission"
	"mainstay.dev/mainstay/internal/admission/config"
)

// nodeSelectorAnnotation contains the node selector for the pods of a namespace.
const nodeSelectorAnnotation = "scheduler.alpha.kubernetes.io/node-selector"

// PodNodeSelector adds the namespace's node selector to new pods.
type PodNodeSelector struct {
	onCreate
	Namespaces Getter[*corev1.Namespace]
	Config     config.PodNodeSelector
}

var (
	_ admission.Mutator   = PodNodeSelector{}
	_ admission.Validator = PodNodeSelector{}
)

func podNodeSelectorPlugin() Registration {
	return Registration{
		Name: PodNodeSelector{}.Name(), Description: "adds the node selector of the namespace to pods",
		New: func(d Dependencies) admission.Plugin {
			return PodNodeSelector{Namespaces: d.namespaces(), Config: d.Config.PodNodeSelector}
		},
	}
}

// Name implements admission.Plugin.
func (PodNodeSelector) Name() string { return "PodNodeSelector" }

// Mutate implements admission.Mutator.
func (p PodNodeSelector) Mutate(ctx context.Context, a *admission.Attributes) error {
	pod, selector, err := p.selectorFor(ctx, a)
	if err != nil || len(selector) == 0 {
		return err
	}
	if pod.Spec.NodeSelector == nil {
		pod.Spec.NodeSelector = make(map[string]string, len(selector))
	}
	maps.Copy(pod.Spec.NodeSelector, selector)
	return nil
}

// Validate implements admission.Validator. It repeats the check, because webhooks may have changed
// the pod.
func (p PodNodeSelector) Validate(ctx context.Context, a *admission.Attributes) error {
	_, _, err := p.selectorFor(ctx, a)
	return err
}

// rejectDisallowed returns an error if the namespace of the request does not allow the node selector.
func (p PodNodeSelector) rejectDisallowed(a *admission.Attributes, selector labels.Set) error {
	allowed := p.Config.Allowed[a.Namespace]
	if len(allowed) == 0 {
		return nil
	}
	for key, value := range selector {
		if has, ok := allowed[key]; !ok || has != value {
			return reject(a, errors.New("pod node label selector labels conflict with its namespace whitelist"))
		}
	}
	return nil
}

// selectorFor returns the new pod of a request and the node selector of its namespace, or an error if the two
// conflict. It returns a nil pod for requests that do not create a pod.
func (p PodNodeSelector) selectorFor(ctx context.Context, a *admission.Attributes) (*corev1.Pod, labels.Set, error) {
	pod := objectOf[corev1.Pod](a, "", "pods")
	if pod == nil {
		return nil, nil, nil
	}
	namespace, err := p.Namespaces.Get(ctx, types.NamespacedName{Name: a.Namespace})
	if err != nil {
		return nil, nil, err
	}
	selector := p.Config.Default
	if text, ok := namespace.Annotations[nodeSelectorAnnotation]; ok {
		if selector, err = labels.ConvertSelectorToLabelsMap(text); err != nil {
			return nil, nil, err
		}
	}
	if labels.Conflicts(selector, pod.Spec.NodeSelector) {
		return nil, nil, reject(a, errors.New("pod node label selector conflicts with its namespace node label selector"))
	}
	return pod, selector, p.rejectDisallowed(a, labels.Merge(selector, pod.Spec.NodeSelector))
}
