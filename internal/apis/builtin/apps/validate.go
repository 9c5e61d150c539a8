package apps

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	apivalidation "k8s.io/apimachinery/pkg/util/validation"

	"mainstay.dev/mainstay/internal/apis/builtin/podspec"
	"mainstay.dev/mainstay/internal/apis/builtin/validation"
)

// This file contains rules that apply to several kinds of workloads. Fields that are pointers may be nil only
// in objects without defaults.

func validateCount(f validation.Field, n *int32) {
	if n != nil {
		f.NonNegative(int64(*n))
	}
}

// validateReplicated validates the selector and template of a ReplicaSet or Deployment.
func validateReplicated(f validation.Field, selector *metav1.LabelSelector, template, old *corev1.PodTemplateSpec) {
	at := f.Child("selector")
	if selector == nil {
		at.Required("")
	} else {
		at.LabelSelector(selector)
		if isEmpty(selector) {
			at.Invalid(selector, "empty selector is invalid for deployment")
		}
	}
	parsed, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		at.Invalid(selector, "invalid label selector")
		return
	}
	podspec.ValidateTemplateLabels(f.Child("template"), parsed, template)
	podspec.ValidateTemplate(f.Child("template"), template, old)
	podspec.ValidateRestartAlways(f.Child("template"), template, "ReplicaSet")
}

func isEmpty(selector *metav1.LabelSelector) bool {
	return len(selector.MatchLabels)+len(selector.MatchExpressions) == 0
}

// validateNumberOrPercent validates a number or a percentage of at most 100 %. n may be nil.
func validateNumberOrPercent(f validation.Field, n *intstr.IntOrString) {
	if n != nil {
		f.NumberOrPercent(*n)
		f.AtMost100Percent(*n)
	}
}

// isZero reports whether value is nil, invalid, zero or zero percent.
func isZero(value *intstr.IntOrString) bool {
	if value == nil || value.Type == intstr.String && len(apivalidation.IsValidPercent(value.StrVal)) > 0 {
		return true
	}
	n, err := intstr.GetScaledValueFromIntOrPercent(value, 100, true)
	return err != nil || n == 0
}

// counter is a field of a status that contains a number.
type counter struct {
	name string
	n    int64
}

func validateCounters(f validation.Field, counters ...counter) {
	for _, c := range counters {
		f.Child(c.name).NonNegative(c.n)
	}
}

// atMost requires n <= most for two numbers of replicas. name is the field of n, and of describes most in the
// error message.
func atMost(f validation.Field, name string, n, most int32, of string) {
	if n > most {
		f.Child(name).Invalid(n, "cannot be greater than "+of)
	}
}

// validateCollisions requires that the number of name collisions does not decrease.
func validateCollisions(f validation.Field, n, old *int32) {
	if n != nil {
		f.NonNegative(int64(*n))
	}
	if old != nil && number(n) < *old {
		f.Invalid(number(n), "cannot be decremented")
	}
}

func validateControllerRevision(f validation.Field, revision, old *appsv1.ControllerRevision) {
	switch raw := revision.Data.Raw; {
	case old != nil:
		validation.Immutable(f.Child("data"), revision.Data, old.Data)
	case len(raw) == 0 && revision.Data.Object == nil:
		f.Child("data").Required("data is mandatory")
	case len(raw) > 0 && raw[0] != '{':
		f.Child("data").Required("data must be a valid JSON object")
	}
	f.Child("revision").NonNegative(revision.Revision)
}

func validateReplicaSet(f validation.Field, rs, old *appsv1.ReplicaSet) {
	f = f.Child("spec")
	validateCount(f.Child("replicas"), rs.Spec.Replicas)
	f.Child("minReadySeconds").NonNegative(int64(rs.Spec.MinReadySeconds))
	var before *corev1.PodTemplateSpec
	if old != nil {
		before = &old.Spec.Template
		validation.Immutable(f.Child("selector"), rs.Spec.Selector, old.Spec.Selector)
	}
	validateReplicated(f, rs.Spec.Selector, &rs.Spec.Template, before)
}

func validateReplicaSetStatus(f validation.Field, rs, _ *appsv1.ReplicaSet) {
	f, s := f.Child("status"), &rs.Status
	validateCounters(f, counter{"replicas", int64(s.Replicas)}, counter{"fullyLabeledReplicas", int64(s.FullyLabeledReplicas)},
		counter{"readyReplicas", int64(s.ReadyReplicas)}, counter{"availableReplicas", int64(s.AvailableReplicas)},
		counter{"observedGeneration", s.ObservedGeneration})
	validateCount(f.Child("terminatingReplicas"), s.TerminatingReplicas)
	atMost(f, "fullyLabeledReplicas", s.FullyLabeledReplicas, s.Replicas, "status.replicas")
	atMost(f, "readyReplicas", s.ReadyReplicas, s.Replicas, "status.replicas")
	atMost(f, "availableReplicas", s.AvailableReplicas, s.Replicas, "status.replicas")
	atMost(f, "availableReplicas", s.AvailableReplicas, s.ReadyReplicas, "readyReplicas")
}
