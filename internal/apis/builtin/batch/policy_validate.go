package batch

import (
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"mainstay.dev/mainstay/internal/apis/builtin/validation"
)

// Limits for pod failure policies and success policies.
const (
	maxFailureRules  = 20
	maxSuccessRules  = 20
	maxRuleValues    = 255
	maxRulePatterns  = 20
	maxIndexesLength = 64 << 10
)

func validateFailurePolicy(f validation.Field, spec *batchv1.JobSpec) {
	policy := spec.PodFailurePolicy
	if policy == nil {
		return
	}
	f = f.Child("rules")
	if len(policy.Rules) > maxFailureRules {
		f.TooMany(len(policy.Rules), maxFailureRules)
		return
	}
	for i := range policy.Rules {
		validateFailureRule(f.Index(i), spec, &policy.Rules[i])
	}
}

func validateFailureRule(f validation.Field, spec *batchv1.JobSpec, rule *batchv1.PodFailurePolicyRule) {
	switch rule.Action {
	case "":
		f.Child("action").Required(`valid values: ["Count" "FailIndex" "FailJob" "Ignore"]`)
	case batchv1.PodFailurePolicyActionFailIndex:
		if spec.BackoffLimitPerIndex == nil {
			f.Child("action").Invalid(rule.Action, "requires the backoffLimitPerIndex to be set")
		}
	default:
		validation.OneOf(f.Child("action"), rule.Action, batchv1.PodFailurePolicyActionCount, batchv1.PodFailurePolicyActionFailIndex,
			batchv1.PodFailurePolicyActionFailJob, batchv1.PodFailurePolicyActionIgnore)
	}
	if rule.OnExitCodes != nil {
		validateExitCodes(f.Child("onExitCodes"), spec, rule.OnExitCodes)
	}
	if len(rule.OnPodConditions) > maxRulePatterns {
		f.Child("onPodConditions").TooMany(len(rule.OnPodConditions), maxRulePatterns)
		return
	}
	for i := range rule.OnPodConditions {
		pattern, at := &rule.OnPodConditions[i], f.Child("onPodConditions").Index(i)
		at.Child("type").QualifiedName(string(pattern.Type))
		if pattern.Status == "" {
			at.Child("status").Required(`valid values: ["False" "True" "Unknown"]`)
		} else {
			validation.OneOf(at.Child("status"), pattern.Status, corev1.ConditionFalse, corev1.ConditionTrue, corev1.ConditionUnknown)
		}
	}
	switch codes, conditions := rule.OnExitCodes != nil, len(rule.OnPodConditions) > 0; {
	case codes && conditions:
		f.Invalid(field.OmitValueType{}, "specifying both OnExitCodes and OnPodConditions is not supported")
	case !codes && !conditions:
		f.Invalid(field.OmitValueType{}, "specifying one of OnExitCodes and OnPodConditions is required")
	}
}

func validateExitCodes(f validation.Field, spec *batchv1.JobSpec, codes *batchv1.PodFailurePolicyOnExitCodesRequirement) {
	if codes.Operator == "" {
		f.Child("operator").Required(`valid values: ["In" "NotIn"]`)
	} else {
		validation.OneOf(f.Child("operator"), codes.Operator, batchv1.PodFailurePolicyOnExitCodesOpIn, batchv1.PodFailurePolicyOnExitCodesOpNotIn)
	}
	if name := codes.ContainerName; name != nil && !hasContainer(&spec.Template.Spec, *name) {
		f.Child("containerName").Invalid(*name, "must be one of the container or initContainer names in the pod template")
	}
	values := f.Child("values")
	if len(codes.Values) == 0 {
		values.Invalid(codes.Values, "at least one value is required")
	} else if len(codes.Values) > maxRuleValues {
		values.TooMany(len(codes.Values), maxRuleValues)
	}
	seen, ordered := validation.NewDuplicates[int32](len(codes.Values)), true
	for i, value := range codes.Values {
		if codes.Operator == batchv1.PodFailurePolicyOnExitCodesOpIn && value == 0 {
			values.Index(i).Invalid(value, "must not be 0 for the In operator")
		}
		if seen.IsDuplicate(value) {
			values.Index(i).Duplicate(value)
		}
		ordered = ordered && (i == 0 || codes.Values[i-1] <= value)
	}
	if !ordered {
		values.Invalid(codes.Values, "must be ordered")
	}
}

func hasContainer(spec *corev1.PodSpec, name string) bool {
	for _, containers := range [...][]corev1.Container{spec.Containers, spec.InitContainers} {
		for i := range containers {
			if containers[i].Name == name {
				return true
			}
		}
	}
	return false
}

func validateSuccessPolicy(f validation.Field, spec *batchv1.JobSpec) {
	policy := spec.SuccessPolicy
	if policy == nil || !isIndexed(spec) {
		return
	}
	f = f.Child("rules")
	if len(policy.Rules) == 0 {
		f.Required("at least one rules must be specified when the successPolicy is specified")
	}
	if len(policy.Rules) > maxSuccessRules {
		f.TooMany(len(policy.Rules), maxSuccessRules)
	}
	for i := range policy.Rules[:min(maxSuccessRules, len(policy.Rules))] {
		validateSuccessRule(f.Index(i), spec, &policy.Rules[i])
	}
}

func validateSuccessRule(f validation.Field, spec *batchv1.JobSpec, rule *batchv1.SuccessPolicyRule) {
	if rule.SucceededCount == nil && rule.SucceededIndexes == nil {
		f.Required("at least one of succeededCount or succeededIndexes must be specified")
	}
	completions := int32(0)
	if spec.Completions != nil {
		completions = *spec.Completions
	}
	total := 0
	if list := rule.SucceededIndexes; list != nil {
		at := f.Child("succeededIndexes")
		var err error
		if total, err = countIndexes(*list, completions); err != nil {
			at.Invalid(*list, "error parsing succeededIndexes: "+err.Error())
		}
		if len(*list) > maxIndexesLength {
			at.TooLong(maxIndexesLength)
		}
	}
	count, at := rule.SucceededCount, f.Child("succeededCount")
	if count == nil {
		return
	}
	at.NonNegative(int64(*count))
	if *count > completions {
		at.Invalid(*count, fmt.Sprintf("must be less than or equal to %d (the number of specified completions)", completions))
	}
	if rule.SucceededIndexes != nil && int(*count) > total {
		at.Invalid(*count, fmt.Sprintf("must be less than or equal to %d (the number of indexes in the specified succeededIndexes field)", total))
	}
}
