package podspec

import (
	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"

	"mainstay.dev/mainstay/internal/apis/builtin/validation"
)

// ValidateRuntimeClass validates the fields that a runtime class adds to its pods: overhead, node selector and
// tolerations. old is nil on creation.
func ValidateRuntimeClass(f validation.Field, class, old *nodev1.RuntimeClass) {
	p := pod{spec: addedBy(class)}
	if old != nil {
		p.old = addedBy(old)
	}
	p.validatePodResources(f)
	p.validateScheduling(f.Child("scheduling"))
	validateDistinct(f.Child("scheduling").Child("tolerations"), p.spec.Tolerations)
}

// addedBy returns a pod spec that contains only the fields that a runtime class adds.
func addedBy(class *nodev1.RuntimeClass) *corev1.PodSpec {
	var spec corev1.PodSpec
	if class.Overhead != nil {
		spec.Overhead = class.Overhead.PodFixed
	}
	if class.Scheduling != nil {
		spec.NodeSelector, spec.Tolerations = class.Scheduling.NodeSelector, class.Scheduling.Tolerations
	}
	return &spec
}

// validateDistinct rejects duplicate tolerations. They are valid in pods, but not in runtime classes.
func validateDistinct(f validation.Field, tolerations []corev1.Toleration) {
	type toleration struct {
		key, value string
		operator   corev1.TolerationOperator
		effect     corev1.TaintEffect
		seconds    int64
		limited    bool
	}
	seen := validation.NewDuplicates[toleration](len(tolerations))
	for i := range tolerations {
		t := &tolerations[i]
		one := toleration{key: t.Key, value: t.Value, operator: t.Operator, effect: t.Effect}
		if t.TolerationSeconds != nil {
			one.seconds, one.limited = *t.TolerationSeconds, true
		}
		if seen.IsDuplicate(one) {
			f.Index(i).Duplicate(t)
		}
	}
}
