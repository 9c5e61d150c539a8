package autoscaling

import (
	"fmt"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"mainstay.dev/mainstay/internal/apis/builtin/validation"
	"mainstay.dev/mainstay/internal/feature"
)

// Limits for the behavior of an autoscaler.
const (
	maxWindowSeconds = 3600
	maxPeriodSeconds = 1800
)

func validate(f validation.Field, hpa, old *autoscalingv2.HorizontalPodAutoscaler) {
	f, spec := f.Child("spec"), &hpa.Spec
	var before autoscalingv2.HorizontalPodAutoscalerSpec
	if old != nil {
		before = old.Spec
	}
	validateReplicas(f, spec, &before)
	target, was := &spec.ScaleTargetRef, &before.ScaleTargetRef
	validateReference(f.Child("scaleTargetRef"), target)
	if old == nil || target.APIVersion != was.APIVersion || target.Kind != was.Kind {
		validateTargetVersion(f.Child("scaleTargetRef").Child("apiVersion"), target)
	}
	if !f.Violates(func(f validation.Field) { validateObjectVersions(f, before.Metrics) }) {
		validateObjectVersions(f.Child("metrics"), spec.Metrics)
	}
	validateMetrics(f.Child("metrics"), spec)
	if behavior := spec.Behavior; behavior != nil {
		validateScaling(f.Child("behavior").Child("scaleUp"), behavior.ScaleUp)
		validateScaling(f.Child("behavior").Child("scaleDown"), behavior.ScaleDown)
	}
}

// validateReplicas validates the minimum and maximum number of replicas. If the feature gate is disabled, only
// autoscalers that already scale to zero may do so.
func validateReplicas(f validation.Field, spec, old *autoscalingv2.HorizontalPodAutoscalerSpec) {
	switch most := spec.MaxReplicas; {
	case most == 0:
		f.Child("maxReplicas").Required("must be set and greater than 0")
	case most < 0:
		f.Child("maxReplicas").Invalid(most, "must be greater than or equal to 1")
	}
	if spec.MinReplicas == nil {
		return
	}
	least, bound := *spec.MinReplicas, int32(1)
	if f.Enabled(feature.HPAScaleToZero) || scalesToZero(old) {
		bound = 0
	}
	if least < bound {
		f.Child("minReplicas").Invalid(least, fmt.Sprintf("must be greater than or equal to %d", bound))
	}
	if spec.MaxReplicas < least {
		f.Child("maxReplicas").Invalid(spec.MaxReplicas, "must be greater than or equal to `minReplicas`")
	}
}

func scalesToZero(spec *autoscalingv2.HorizontalPodAutoscalerSpec) bool {
	return spec.MinReplicas != nil && *spec.MinReplicas == 0
}

func validateReference(f validation.Field, ref *autoscalingv2.CrossVersionObjectReference) {
	f.Child("kind").RequiredPathSegment(ref.Kind)
	f.Child("name").RequiredPathSegment(ref.Name)
}

// validateTargetVersion requires that the API version of the target contains a group, unless the target is a
// ReplicationController, the only scalable kind in the core group.
func validateTargetVersion(f validation.Field, target *autoscalingv2.CrossVersionObjectReference) {
	version, err := schema.ParseGroupVersion(target.APIVersion)
	switch {
	case err != nil:
		f.Invalid(target.APIVersion, err.Error())
	case version.Group == "" && target.Kind != "ReplicationController":
		f.Invalid(target.APIVersion, "apiVersion must specify API group")
	}
}

func validateScaling(f validation.Field, rules *autoscalingv2.HPAScalingRules) {
	if rules == nil {
		return
	}
	if window := rules.StabilizationWindowSeconds; window != nil {
		at := f.Child("stabilizationWindowSeconds")
		if *window < 0 {
			at.Invalid(*window, "must be greater than or equal to zero")
		}
		validateAtMost(at, *window, maxWindowSeconds)
	}
	if policy := rules.SelectPolicy; policy != nil {
		validation.OneOf(f.Child("selectPolicy"), *policy,
			autoscalingv2.DisabledPolicySelect, autoscalingv2.MaxChangePolicySelect, autoscalingv2.MinChangePolicySelect)
	}
	if len(rules.Policies) == 0 {
		f.Child("policies").Required("must specify at least one Policy")
	}
	for i := range rules.Policies {
		validatePolicy(f.Child("policies").Index(i), &rules.Policies[i])
	}
	if t := rules.Tolerance; t != nil && t.Sign() < 0 {
		f.Child("tolerance").Invalid(t.String(), "must be greater than or equal to 0")
	}
}

func validatePolicy(f validation.Field, policy *autoscalingv2.HPAScalingPolicy) {
	validation.OneOf(f.Child("type"), policy.Type, autoscalingv2.PercentScalingPolicy, autoscalingv2.PodsScalingPolicy)
	validatePositive(f.Child("value"), policy.Value)
	validatePositive(f.Child("periodSeconds"), policy.PeriodSeconds)
	validateAtMost(f.Child("periodSeconds"), policy.PeriodSeconds, maxPeriodSeconds)
}

func validatePositive(f validation.Field, n int32) {
	if n <= 0 {
		f.Invalid(n, "must be greater than zero")
	}
}

func validateAtMost(f validation.Field, n, most int32) {
	if n > most {
		f.Invalid(n, fmt.Sprintf("must be less than or equal to %d", most))
	}
}

func validateStatus(f validation.Field, hpa, _ *autoscalingv2.HorizontalPodAutoscaler) {
	f = f.Child("status")
	f.Child("currentReplicas").NonNegative(int64(hpa.Status.CurrentReplicas))
	f.Child("desiredReplicas").NonNegative(int64(hpa.Status.DesiredReplicas))
}
