package resource

import (
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"

	declared "mainstay.dev/mainstay/internal/apis/builtin/declarative/resource"
	"mainstay.dev/mainstay/internal/apis/builtin/podspec"
	"mainstay.dev/mainstay/internal/apis/builtin/validation"
)

func validateTaintRule(f validation.Field, rule, old *resourcev1.DeviceTaintRule) {
	spec := f.Child("spec")
	if selector := rule.Spec.DeviceSelector; selector != nil {
		at := spec.Child("deviceSelector")
		if selector.Driver != nil {
			podspec.ValidateCSIDriverName(at.Child("driver"), *selector.Driver)
		}
		if selector.Pool != nil {
			validatePoolName(at.Child("pool"), *selector.Pool)
		}
		if selector.Device != nil {
			at.Child("device").DNSLabel(*selector.Device)
		}
	}
	validateTaint(spec.Child("taint"), &rule.Spec.Taint)
	validation.ValidateDeclared(f, declared.Validate_DeviceTaintRule, rule, old, "")
}

func validateTaintRuleStatus(f validation.Field, rule, old *resourcev1.DeviceTaintRule) {
	validateConditions(f.Child("status").Child("conditions"), rule.Status.Conditions, resourcev1.DeviceTaintRuleStatusMaxConditions)
	validation.ValidateDeclared(f, declared.Validate_DeviceTaintRule, rule, old, "status")
}

// validateTaint validates a taint. +k8s markers validate its effect.
func validateTaint(f validation.Field, taint *resourcev1.DeviceTaint) {
	f.Child("key").QualifiedName(taint.Key)
	f.Child("value").LabelValue(taint.Value)
}

func validateConditions(f validation.Field, conditions []metav1.Condition, most int) {
	if len(conditions) == 0 {
		return
	}
	if len(conditions) > most {
		f.TooMany(len(conditions), most)
	}
	f.Add(metav1validation.ValidateConditions(conditions, f.Path())...)
}
