package resource

import (
	resourcev1 "k8s.io/api/resource/v1"

	declared "mainstay.dev/mainstay/apis/builtin/declarative/resource"
	"mainstay.dev/mainstay/apis/builtin/validation"
)

func validateDeviceClass(f validation.Field, class, old *resourcev1.DeviceClass) {
	validation.Declared(f, declared.Validate_DeviceClass, class, old, "")
}

func validateTaintRule(f validation.Field, rule, old *resourcev1.DeviceTaintRule) {
	validation.Declared(f, declared.Validate_DeviceTaintRule, rule, old, "")
}

func validateTaintRuleStatus(f validation.Field, rule, old *resourcev1.DeviceTaintRule) {
	validation.Declared(f, declared.Validate_DeviceTaintRule, rule, old, "status")
}

func validateClaim(f validation.Field, claim, old *resourcev1.ResourceClaim) {
	validation.Declared(f, declared.Validate_ResourceClaim, claim, old, "")
}

func validateClaimStatus(f validation.Field, claim, old *resourcev1.ResourceClaim) {
	validation.Declared(f, declared.Validate_ResourceClaim, claim, old, "status")
}

func validateClaimTemplate(f validation.Field, template, old *resourcev1.ResourceClaimTemplate) {
	validation.Declared(f, declared.Validate_ResourceClaimTemplate, template, old, "")
}

func validateSlice(f validation.Field, slice, old *resourcev1.ResourceSlice) {
	validation.Declared(f, declared.Validate_ResourceSlice, slice, old, "")
}
