package scheduling

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"

	"mainstay.dev/mainstay/internal/apis/builtin/validation"
)

const (
	systemPrefix = "system-"
	// maxUserPriority is the maximum priority of classes that do not belong to the system.
	maxUserPriority = 1000000000
)

func validatePriorityClass(f validation.Field, class, old *schedulingv1.PriorityClass) {
	if old != nil {
		if class.Value != old.Value {
			f.Child("value").Forbidden("may not be changed in an update.")
		}
		validation.Immutable(f.Child("preemptionPolicy"), class.PreemptionPolicy, old.PreemptionPolicy)
		return
	}
	if strings.HasPrefix(class.Name, systemPrefix) {
		validateSystemClass(f.Child("metadata").Child("name"), class)
	} else if class.Value > maxUserPriority {
		f.Child("value").Forbidden(fmt.Sprintf("maximum allowed value of a user defined priority is %d", maxUserPriority))
	}
	if class.PreemptionPolicy != nil {
		validatePreemption(f.Child("preemptionPolicy"), *class.PreemptionPolicy)
	}
}

func validatePreemption(f validation.Field, policy corev1.PreemptionPolicy) {
	if policy == "" {
		f.Required("")
	} else {
		validation.OneOf(f, policy, corev1.PreemptLowerPriority, corev1.PreemptNever)
	}
}

// systemClasses returns the values of the two system classes, which package bootstrap creates.
func systemClasses() map[string]int32 {
	return map[string]int32{"system-node-critical": 2000001000, "system-cluster-critical": 2000000000}
}

// undeletableClass returns the reason why a class must not be deleted, or "".
func undeletableClass(name string) string {
	if _, ok := systemClasses()[name]; ok {
		return "this is a system priority class and cannot be deleted"
	}
	return ""
}

// validateSystemClass validates a new class with a reserved name.
func validateSystemClass(f validation.Field, class *schedulingv1.PriorityClass) {
	value, ok := systemClasses()[class.Name]
	problem := ""
	switch {
	case !ok:
		problem = class.Name + " is not a known system priority class"
	case class.Value != value:
		problem = fmt.Sprintf("value of %s PriorityClass must be %d", class.Name, value)
	case class.GlobalDefault:
		problem = fmt.Sprintf("globalDefault of %s PriorityClass must be false", class.Name)
	default:
		return
	}
	f.Forbidden("priority class names with '" + systemPrefix + "' prefix are reserved for system use only. error: " + problem)
}
