package plugin

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/admission"
	"mainstay.dev/mainstay/internal/admission/config"
)

// These annotations of a namespace contain the default tolerations of its new pods, and the permitted
// tolerations.
const (
	defaultTolerations   = "scheduler.alpha.kubernetes.io/defaultTolerations"
	tolerationsWhitelist = "scheduler.alpha.kubernetes.io/tolerationsWhitelist"
)

// PodTolerationRestriction adds the namespace's default tolerations to new pods, and rejects tolerations that
// the namespace does not permit.
type PodTolerationRestriction struct {
	onCreateOrUpdate
	Namespaces Getter[*corev1.Namespace]
	Config     config.PodTolerationRestriction
}

var (
	_ admission.Mutator   = PodTolerationRestriction{}
	_ admission.Validator = PodTolerationRestriction{}
)

func podTolerationRestrictionPlugin() Registration {
	return Registration{
		Name: PodTolerationRestriction{}.Name(), Description: "adds the default tolerations of the namespace to pods, and rejects tolerations outside its list",
		New: func(d Dependencies) admission.Plugin {
			return PodTolerationRestriction{Namespaces: d.namespaces(), Config: d.Config.PodTolerationRestriction}
		},
	}
}

// Name implements admission.Plugin.
func (PodTolerationRestriction) Name() string { return "PodTolerationRestriction" }

// Mutate implements admission.Mutator.
func (p PodTolerationRestriction) Mutate(ctx context.Context, a *admission.Attributes) error {
	pod := objectOf[corev1.Pod](a, "", "pods")
	if pod == nil {
		return nil
	}
	var more []corev1.Toleration
	if a.Operation == admission.Create {
		var err error
		if more, err = p.tolerations(ctx, a, defaultTolerations, p.Config.Default); err != nil {
			return err
		}
	}
	if !isBestEffort(&pod.Spec) {
		more = append(more, corev1.Toleration{Key: corev1.TaintNodeMemoryPressure, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule})
	}
	if len(more) > 0 {
		merged, err := mergeTolerations(pod.Spec.Tolerations, more)
		if err != nil {
			return reject(a, err)
		}
		pod.Spec.Tolerations = merged
	}
	return p.Validate(ctx, a)
}

// Validate implements admission.Validator. As in kube-apiserver, a rejection is not an API error, so the
// response has the status 500.
func (p PodTolerationRestriction) Validate(ctx context.Context, a *admission.Attributes) error {
	pod := objectOf[corev1.Pod](a, "", "pods")
	if pod == nil || len(pod.Spec.Tolerations) == 0 {
		return nil
	}
	allowed, err := p.tolerations(ctx, a, tolerationsWhitelist, p.Config.Whitelist)
	if err != nil || len(allowed) == 0 {
		return err
	}
	if err := checkCount(pod.Spec.Tolerations); err != nil {
		return reject(a, err)
	}
	isForeign := func(t corev1.Toleration) bool { return !coveredBy(allowed, &t, false) }
	if slices.ContainsFunc(pod.Spec.Tolerations, isForeign) {
		return errors.New("pod tolerations (possibly merged with namespace default tolerations) conflict with its namespace whitelist")
	}
	return nil
}

// tolerations returns the tolerations in an annotation of the request's namespace, or the configured
// tolerations (ofCluster) if the namespace does not have the annotation. An annotation with an empty value is
// equivalent to an empty list.
func (p PodTolerationRestriction) tolerations(ctx context.Context, a *admission.Attributes, annotation string, ofCluster []corev1.Toleration) ([]corev1.Toleration, error) {
	namespace, err := p.Namespaces.Get(ctx, types.NamespacedName{Name: a.Namespace})
	if err != nil {
		return nil, err
	}
	text, ok := namespace.Annotations[annotation]
	switch {
	case !ok:
		return slices.Clone(ofCluster), nil
	case text == "":
		return nil, nil
	}
	var tolerations []corev1.Toleration
	err = json.Unmarshal([]byte(text), &tolerations)
	return tolerations, err
}

// isBestEffort reports whether a pod has neither requests nor limits for cpu and memory.
func isBestEffort(spec *corev1.PodSpec) bool {
	for _, total := range [...]corev1.ResourceList{podRequests(spec), podLimits(spec)} {
		if total.Cpu().Sign() > 0 || total.Memory().Sign() > 0 {
			return false
		}
	}
	return true
}
