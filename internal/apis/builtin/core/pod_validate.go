package core

import (
	"fmt"
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apivalidation "k8s.io/apimachinery/pkg/util/validation"

	"mainstay.dev/mainstay/internal/apis/builtin"
	"mainstay.dev/mainstay/internal/apis/builtin/podspec"
	"mainstay.dev/mainstay/internal/apis/builtin/validation"
)

// validatePod validates a pod and, if old is not nil, the differences from old.
func validatePod(f validation.Field, pod, old *corev1.Pod) {
	validateWholePod(f, pod, old)
	if old == nil {
		if pod.Spec.NodeName != "" && len(pod.Spec.SchedulingGates) > 0 {
			f.Child("spec").Child("nodeName").Forbidden("cannot be set until all schedulingGates have been cleared")
		}
		if len(pod.Spec.EphemeralContainers) > 0 {
			f.Child("spec").Child("ephemeralContainers").Forbidden("cannot be set on create")
		}
		podspec.ValidateAnnotationsMatchFields(f.Child("spec"), &pod.ObjectMeta, &pod.Spec)
		return
	}
	validateAnnotationsKept(f, pod, old)
	validatePodUpdate(f.Child("spec"), &pod.Spec, &old.Spec)
}

// validateWholePod contains the rules that apply to all writes of a pod.
func validateWholePod(f validation.Field, pod, old *corev1.Pod) {
	var before *corev1.PodSpec
	var meta *metav1.ObjectMeta
	if old != nil {
		before, meta = &old.Spec, &old.ObjectMeta
	}
	podspec.ValidateAnnotations(f.Child("metadata").Child("annotations"), &pod.ObjectMeta, meta, &pod.Spec)
	podspec.Validate(f.Child("spec"), &pod.Spec, before, podspec.Options{Pod: true, Name: pod.Name})
}

// validateAnnotationsKept rejects changes of the mirror pod annotation and of AppArmor annotations.
func validateAnnotationsKept(f validation.Field, pod, old *corev1.Pod) {
	podspec.ValidateAnnotationsUnchanged(f.Child("metadata").Child("annotations"), &pod.ObjectMeta, &old.ObjectMeta)
}

// mutable is the error detail for changes of immutable fields. As in kube-apiserver, it lists the mutable
// fields.
const mutable = "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`," +
	"`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations)," +
	"`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)\n"

func validatePodUpdate(f validation.Field, spec, old *corev1.PodSpec) {
	if len(spec.Containers) != len(old.Containers) {
		f.Child("containers").Forbidden("pod updates may not add or remove containers")
		return
	}
	if len(spec.InitContainers) != len(old.InitContainers) {
		f.Child("initContainers").Forbidden("pod updates may not add or remove containers")
		return
	}
	count := f.ErrorCount()
	validateDeadlineUpdate(f.Child("activeDeadlineSeconds"), spec.ActiveDeadlineSeconds, old.ActiveDeadlineSeconds)
	if f.ErrorCount() > count {
		return
	}
	validateGateUpdate(f.Child("schedulingGates"), spec, old)
	validateAddedTolerations(f.Child("tolerations"), spec.Tolerations, old.Tolerations)
	if len(old.SchedulingGates) > 0 {
		validateGatedUpdate(f, spec, old)
	}
	if validation.Equal(spec, old) {
		return // the common case
	}
	after, before := withoutMutable(spec, old), old
	if !equality.Semantic.DeepEqual(after, before) {
		f.Forbidden(mutable + validation.Diff(before, after))
	}
}

// withoutMutable returns a copy of spec in which the mutable fields have the values of old.
func withoutMutable(spec, old *corev1.PodSpec) *corev1.PodSpec {
	rest := spec.DeepCopy()
	for i := range rest.Containers {
		rest.Containers[i].Image = old.Containers[i].Image
	}
	for i := range rest.InitContainers {
		rest.InitContainers[i].Image = old.InitContainers[i].Image
	}
	rest.ActiveDeadlineSeconds, rest.SchedulingGates, rest.Tolerations = old.ActiveDeadlineSeconds, old.SchedulingGates, old.Tolerations
	if period := old.TerminationGracePeriodSeconds; period != nil && *period < 0 &&
		rest.TerminationGracePeriodSeconds != nil && *rest.TerminationGracePeriodSeconds == 1 {
		rest.TerminationGracePeriodSeconds = period
	}
	if len(old.SchedulingGates) > 0 {
		keepNodeChoice(rest, old)
	}
	return rest
}

// keepNodeChoice sets the node selector and node affinity of rest to those of old. It is used for unscheduled
// pods, which may add requirements to these fields.
func keepNodeChoice(rest, old *corev1.PodSpec) {
	rest.NodeSelector = old.NodeSelector
	now, before := nodeAffinity(rest), nodeAffinity(old)
	if equality.Semantic.DeepEqual(now, before) {
		return
	}
	switch {
	case before != nil && rest.Affinity != nil:
		rest.Affinity.NodeAffinity = before
	case before != nil:
		rest.Affinity = &corev1.Affinity{NodeAffinity: before}
	case old.Affinity == nil && rest.Affinity.PodAffinity == nil && rest.Affinity.PodAntiAffinity == nil:
		rest.Affinity = nil
	default:
		rest.Affinity.NodeAffinity = nil
	}
}

func nodeAffinity(spec *corev1.PodSpec) *corev1.NodeAffinity {
	if spec.Affinity == nil {
		return nil
	}
	return spec.Affinity.NodeAffinity
}

func validateDeadlineUpdate(f validation.Field, seconds, old *int64) {
	switch {
	case seconds != nil:
		if *seconds < 0 || *seconds > math.MaxInt32 {
			f.Between(*seconds, 0, math.MaxInt32)
		} else if old != nil && *seconds > *old {
			f.Invalid(*seconds, "must be less than or equal to previous value")
		}
	case old != nil:
		f.Invalid(seconds, "must not update from a positive integer to nil value")
	}
}

// validateGateUpdate rejects new scheduling gates. If the name of a new gate occurs several times, only the
// last occurrence is reported.
func validateGateUpdate(f validation.Field, spec, old *corev1.PodSpec) {
	before := validation.NewDuplicates[string](len(old.SchedulingGates))
	for i := range old.SchedulingGates {
		before.IsDuplicate(old.SchedulingGates[i].Name)
	}
	seen := validation.NewDuplicates[string](len(spec.SchedulingGates))
	for i := len(spec.SchedulingGates) - 1; i >= 0; i-- {
		name := spec.SchedulingGates[i].Name
		if !before.Has(name) && !seen.IsDuplicate(name) {
			f.Index(i).Child("name").Forbidden(fmt.Sprintf("only deletion is allowed, but found new scheduling gate '%s'", name))
		}
	}
}

// sameToleration identifies a toleration. It does not contain tolerationSeconds, which may change.
type sameToleration struct {
	key, value string
	operator   corev1.TolerationOperator
	effect     corev1.TaintEffect
}

// validateAddedTolerations rejects the removal of tolerations.
func validateAddedTolerations(f validation.Field, tolerations, old []corev1.Toleration) {
	key := func(t *corev1.Toleration) sameToleration { return sameToleration{t.Key, t.Value, t.Operator, t.Effect} }
	now := validation.NewDuplicates[sameToleration](len(tolerations))
	for i := range tolerations {
		now.IsDuplicate(key(&tolerations[i]))
	}
	for i := range old {
		if !now.Has(key(&old[i])) {
			f.Forbidden("existing toleration can not be modified except its tolerationSeconds")
			return
		}
	}
}

// validateGatedUpdate rejects changes that make the node selector or the node affinity of a gated pod less
// strict.
func validateGatedUpdate(f validation.Field, spec, old *corev1.PodSpec) {
	for key, value := range old.NodeSelector {
		if now, ok := spec.NodeSelector[key]; !ok || now != value {
			f.Child("nodeSelector").Invalid(spec.NodeSelector, "only additions to spec.nodeSelector are allowed (no mutations or deletions)")
			break
		}
	}
	before := nodeAffinity(old)
	if before == nil || before.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return
	}
	terms := f.Child("affinity").Child("nodeAffinity").Child("requiredDuringSchedulingIgnoredDuringExecution").Child("nodeSelectorTerms")
	var now []corev1.NodeSelectorTerm
	if a := nodeAffinity(spec); a != nil && a.RequiredDuringSchedulingIgnoredDuringExecution != nil {
		now = a.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	}
	was := before.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	if len(was) > 0 && len(now) != len(was) {
		terms.Invalid(now, "no additions/deletions to non-empty NodeSelectorTerms list are allowed")
		return
	}
	for i := range was {
		nothing := len(was[i].MatchExpressions)+len(was[i].MatchFields) == 0
		something := len(now[i].MatchExpressions)+len(now[i].MatchFields) > 0
		if nothing && something || !extends(now[i].MatchExpressions, was[i].MatchExpressions) || !extends(now[i].MatchFields, was[i].MatchFields) {
			terms.Index(i).Invalid(now[i], "only additions are allowed (no mutations or deletions)")
		}
	}
}

// extends reports whether now starts with all requirements in before.
func extends(now, before []corev1.NodeSelectorRequirement) bool {
	return len(now) >= len(before) && slices.EqualFunc(now[:len(before)], before, func(a, b corev1.NodeSelectorRequirement) bool {
		return equality.Semantic.DeepEqual(a, b)
	})
}

// podWarnings returns the warnings for a new pod. Updates have no warnings, because most of them
// come from controllers.
func podWarnings(_ *builtin.Operation, pod, old *corev1.Pod) []string {
	if old != nil {
		return nil
	}
	warnings := podspec.Warnings("spec", &pod.Spec, &pod.ObjectMeta)
	if problems := apivalidation.IsDNS1123Label(pod.Name); len(problems) > 0 {
		warnings = append(warnings, fmt.Sprintf("metadata.name: this is used in the Pod's hostname, "+
			"which can result in surprising behavior; a DNS label is recommended: %v", problems))
	}
	return warnings
}
