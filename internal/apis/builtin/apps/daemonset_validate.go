package apps

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mainstay.dev/mainstay/internal/apis/builtin/podspec"
	"mainstay.dev/mainstay/internal/apis/builtin/validation"
)

func validateDaemonSet(f validation.Field, ds, old *appsv1.DaemonSet) {
	f, spec := f.Child("spec"), &ds.Spec
	var before *corev1.PodTemplateSpec
	if old != nil {
		before = &old.Spec.Template
		validation.Immutable(f.Child("selector"), spec.Selector, old.Spec.Selector)
	}
	f.Child("selector").LabelSelector(spec.Selector)
	if selector, err := metav1.LabelSelectorAsSelector(spec.Selector); err == nil {
		podspec.ValidateTemplateLabels(f.Child("template"), selector, &spec.Template)
	}
	if spec.Selector != nil && isEmpty(spec.Selector) {
		f.Child("selector").Invalid(spec.Selector, "empty selector is invalid for daemonset")
	}
	podspec.ValidateTemplate(f.Child("template"), &spec.Template, before)
	podspec.ValidateRestartAlways(f.Child("template"), &spec.Template, "DaemonSet")
	f.Child("minReadySeconds").NonNegative(int64(spec.MinReadySeconds))
	validateCount(f.Child("revisionHistoryLimit"), spec.RevisionHistoryLimit)
	validateDaemonSetStrategy(f.Child("updateStrategy"), &spec.UpdateStrategy)
}

func validateDaemonSetStrategy(f validation.Field, strategy *appsv1.DaemonSetUpdateStrategy) {
	switch strategy.Type {
	case appsv1.OnDeleteDaemonSetStrategyType:
	case appsv1.RollingUpdateDaemonSetStrategyType:
		if strategy.RollingUpdate == nil {
			f.Child("rollingUpdate").Required("")
			return
		}
		validateRollingDaemonSet(f.Child("rollingUpdate"), strategy.RollingUpdate)
	default:
		validation.NotSupported(f, strategy, appsv1.RollingUpdateDaemonSetStrategyType, appsv1.OnDeleteDaemonSetStrategyType)
	}
}

// validateRollingDaemonSet requires that exactly one of maxSurge and maxUnavailable is nonzero.
func validateRollingDaemonSet(f validation.Field, rolling *appsv1.RollingUpdateDaemonSet) {
	validateNumberOrPercent(f.Child("maxUnavailable"), rolling.MaxUnavailable)
	validateNumberOrPercent(f.Child("maxSurge"), rolling.MaxSurge)
	switch less, more := !isZero(rolling.MaxUnavailable), !isZero(rolling.MaxSurge); {
	case less && more:
		f.Child("maxSurge").Invalid(rolling.MaxSurge, "may not be set when maxUnavailable is non-zero")
	case !less && !more:
		f.Child("maxUnavailable").Required("cannot be 0 when maxSurge is 0")
	}
}

func validateDaemonSetStatus(f validation.Field, ds, old *appsv1.DaemonSet) {
	f, s := f.Child("status"), &ds.Status
	validateCounters(f, counter{"currentNumberScheduled", int64(s.CurrentNumberScheduled)},
		counter{"numberMisscheduled", int64(s.NumberMisscheduled)}, counter{"desiredNumberScheduled", int64(s.DesiredNumberScheduled)},
		counter{"numberReady", int64(s.NumberReady)}, counter{"observedGeneration", s.ObservedGeneration},
		counter{"updatedNumberScheduled", int64(s.UpdatedNumberScheduled)}, counter{"numberAvailable", int64(s.NumberAvailable)},
		counter{"numberUnavailable", int64(s.NumberUnavailable)})
	validateCollisions(f.Child("collisionCount"), s.CollisionCount, old.Status.CollisionCount)
}
