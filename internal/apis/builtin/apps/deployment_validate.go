package apps

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"mainstay.dev/mainstay/internal/apis/builtin/validation"
)

func validateDeployment(f validation.Field, d, old *appsv1.Deployment) {
	f, spec := f.Child("spec"), &d.Spec
	var before *corev1.PodTemplateSpec
	if old != nil {
		before = &old.Spec.Template
		validation.Immutable(f.Child("selector"), spec.Selector, old.Spec.Selector)
	}
	validateCount(f.Child("replicas"), spec.Replicas)
	validateReplicated(f, spec.Selector, &spec.Template, before)
	validateDeploymentStrategy(f.Child("strategy"), &spec.Strategy)
	f.Child("minReadySeconds").NonNegative(int64(spec.MinReadySeconds))
	validateCount(f.Child("revisionHistoryLimit"), spec.RevisionHistoryLimit)
	if deadline := spec.ProgressDeadlineSeconds; deadline != nil {
		f.Child("progressDeadlineSeconds").NonNegative(int64(*deadline))
		if *deadline <= spec.MinReadySeconds {
			f.Child("progressDeadlineSeconds").Invalid(*deadline, "must be greater than minReadySeconds")
		}
	}
}

// validateDeploymentStrategy validates the strategy. maxSurge and maxUnavailable must not both be zero,
// because then a rollout could not make progress.
func validateDeploymentStrategy(f validation.Field, strategy *appsv1.DeploymentStrategy) {
	at := f.Child("rollingUpdate")
	switch strategy.Type {
	case appsv1.RecreateDeploymentStrategyType:
		if strategy.RollingUpdate != nil {
			at.Forbidden("may not be specified when strategy `type` is 'Recreate'")
		}
	case appsv1.RollingUpdateDeploymentStrategyType:
		if strategy.RollingUpdate == nil {
			at.Required("this should be defaulted and never be nil")
			return
		}
		validateRollingDeployment(at, strategy.RollingUpdate)
	default:
		validation.NotSupported(f, strategy, appsv1.RecreateDeploymentStrategyType, appsv1.RollingUpdateDeploymentStrategyType)
	}
}

func validateRollingDeployment(f validation.Field, rolling *appsv1.RollingUpdateDeployment) {
	validateNumberOrPercent(f.Child("maxUnavailable"), rolling.MaxUnavailable)
	if n := rolling.MaxSurge; n != nil {
		f.Child("maxSurge").NumberOrPercent(*n)
	}
	if isZero(rolling.MaxUnavailable) && isZero(rolling.MaxSurge) {
		f.Child("maxUnavailable").Invalid(rolling.MaxUnavailable, "may not be 0 when `maxSurge` is 0")
	}
}

func validateDeploymentStatus(f validation.Field, d, old *appsv1.Deployment) {
	f, s := f.Child("status"), &d.Status
	validateCounters(f, counter{"observedGeneration", s.ObservedGeneration}, counter{"replicas", int64(s.Replicas)},
		counter{"updatedReplicas", int64(s.UpdatedReplicas)}, counter{"readyReplicas", int64(s.ReadyReplicas)},
		counter{"availableReplicas", int64(s.AvailableReplicas)}, counter{"unavailableReplicas", int64(s.UnavailableReplicas)})
	validateCount(f.Child("terminatingReplicas"), s.TerminatingReplicas)
	validateCollisions(f.Child("collisionCount"), s.CollisionCount, old.Status.CollisionCount)
	atMost(f, "updatedReplicas", s.UpdatedReplicas, s.Replicas, "status.replicas")
	atMost(f, "readyReplicas", s.ReadyReplicas, s.Replicas, "status.replicas")
	atMost(f, "availableReplicas", s.AvailableReplicas, s.Replicas, "status.replicas")
	atMost(f, "availableReplicas", s.AvailableReplicas, s.ReadyReplicas, "readyReplicas")
}
