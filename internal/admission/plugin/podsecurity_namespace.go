package plugin

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"mainstay.dev/mainstay/internal/admission"
	"mainstay.dev/mainstay/internal/admission/podsecurity"
	"mainstay.dev/mainstay/internal/request"
	"mainstay.dev/mainstay/internal/rest"
)

// maxPodsToCheck is the maximum number of existing pods that are evaluated when the level of a namespace
// changes. podCheckTimeout is the timeout of this evaluation.
const (
	maxPodsToCheck  = 3000
	podCheckTimeout = time.Second
)

// validateNamespace rejects invalid labels, and warns about existing pods that violate a newly
// enforced level.
func (p PodSecurity) validateNamespace(ctx context.Context, a *admission.Attributes, namespace *corev1.Namespace) error {
	policy, faults := p.Config.Defaults.With(namespace.Labels)
	old := oldOf[corev1.Namespace](a)
	if old == nil {
		if len(faults) > 0 {
			return apierrors.NewInvalid(a.Kind().GroupKind(), a.Name, faults)
		}
		return nil
	}
	before, oldFaults := p.Config.Defaults.With(old.Labels)
	if len(faults) > 0 && !slices.EqualFunc(faults, oldFaults, sameError) {
		return apierrors.NewInvalid(a.Kind().GroupKind(), a.Name, faults)
	}
	if !isStricter(policy.Enforce, before.Enforce) {
		return nil
	}
	if slices.Contains(p.Config.Exemptions.Namespaces, a.Namespace) {
		annotate(ctx, a, exemptReason, "namespace")
		return nil
	}
	for _, warning := range p.evaluatePods(ctx, namespace.Name, policy.Enforce) {
		request.AddWarning(ctx, warning)
	}
	return nil
}

// isStricter reports whether a level can reject pods that another level allows. Levels of different versions
// are not comparable: for them, the result is true unless the level is privileged.
func isStricter(level, than podsecurity.LevelVersion) bool {
	return level != than && level.Level != podsecurity.Privileged && (level.Version != than.Version || level.Level > than.Level)
}

// evaluatePods returns warnings about existing pods of a namespace that violate a level. It uses at most half
// of the time that remains for the request.
func (p PodSecurity) evaluatePods(ctx context.Context, namespace string, level podsecurity.LevelVersion) []string {
	timeout := podCheckTimeout
	if deadline, ok := ctx.Deadline(); ok {
		timeout = min(timeout, time.Until(deadline)/2)
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	sample, err := p.samplePods(ctx, namespace)
	if err != nil {
		return []string{"failed to list pods while checking new PodSecurity enforce level"}
	}
	found := violatingPods{}
	checked := 0
	for _, pod := range sample.pods() {
		found.add(pod.Name, p.Standards.Evaluate(level, podsecurity.Pod{Annotations: pod.Annotations, Spec: &pod.Spec}))
		checked++
		if ctx.Err() != nil {
			break
		}
	}
	var warnings []string
	if checked < sample.total {
		warnings = append(warnings, fmt.Sprintf("new PodSecurity enforce level only checked against the first %d of %d existing pods", checked, sample.total))
	}
	if len(found) > 0 {
		warnings = append(warnings, fmt.Sprintf("existing pods in namespace %q violate the new PodSecurity enforce level %q", namespace, level))
	}
	return append(warnings, found.warnings()...)
}

// podSample contains pods of a namespace. first contains one pod per controller, and all pods without a
// controller. others contains the remaining pods, each of which is probably similar to a pod in first.
type podSample struct {
	first, others []*corev1.Pod
	total         int
}

func (s *podSample) pods() []*corev1.Pod {
	all := append(s.first, s.others...)
	return all[:min(len(all), maxPodsToCheck)]
}

// samplePods reads the pods of a namespace. It counts the pods that are not exempt, and keeps the pods to
// evaluate.
func (p PodSecurity) samplePods(ctx context.Context, namespace string) (podSample, error) {
	var sample podSample
	controllers := make(map[types.UID]bool)
	for pod, err := range p.Pods.List(ctx, namespace, rest.ListOptions{}) {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return podSample{}, err
		}
		if p.isExemptClass(&pod.Spec) {
			continue
		}
		sample.total++
		controller := metav1.GetControllerOfNoCopy(pod)
		kept := &sample.first
		if controller != nil && controllers[controller.UID] {
			kept = &sample.others
		}
		if len(*kept) == maxPodsToCheck {
			continue
		}
		*kept = append(*kept, pod)
		if controller != nil {
			controllers[controller.UID] = true
		}
	}
	return sample, nil
}

// violatingPods groups pods by their violations.
type violatingPods map[string]podGroup

// podGroup is the number of pods in a group and the name of one of them.
type podGroup struct {
	name  string
	count int
}

func (v violatingPods) add(name string, violations podsecurity.Violations) {
	if len(violations) == 0 {
		return
	}
	reasons := violations.Reasons()
	group, ok := v[reasons]
	if !ok {
		group.name = name
	}
	v[reasons] = podGroup{min(name, group.name), group.count + 1}
}

// warnings returns one line for each group. The lines are sorted.
func (v violatingPods) warnings() []string {
	var lines []string
	for reasons, group := range v {
		line := group.name
		switch group.count {
		case 1:
		case 2:
			line += " (and 1 other pod)"
		default:
			line += fmt.Sprintf(" (and %d other pods)", group.count-1)
		}
		lines = append(lines, line+": "+reasons)
	}
	slices.Sort(lines)
	return lines
}

func sameError(a, b *field.Error) bool { return a.Error() == b.Error() }
