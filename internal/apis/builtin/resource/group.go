// Package resource declares the resources of resource.k8s.io: devices and claims. The scheduler
// allocates them.
package resource

import (
	resourcev1 "k8s.io/api/resource/v1"
	resourcev1alpha3 "k8s.io/api/resource/v1alpha3"
	resourcev1beta1 "k8s.io/api/resource/v1beta1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"mainstay.dev/mainstay/internal/apis/builtin"
	"mainstay.dev/mainstay/internal/feature"
)

// V1 is resource.k8s.io/v1.
func V1() builtin.Group {
	v1beta2 := schema.GroupVersion{Group: resourcev1.GroupName, Version: "v1beta2"}
	alsoV1beta2 := builtin.Also{GroupVersion: v1beta2, Deprecated: 36}
	rules := &selectors{}
	return builtin.Group{GroupVersion: resourcev1.SchemeGroupVersion, Resources: []builtin.Entry{
		builtin.Resource(builtin.Row[resourcev1.DeviceClass]{
			Name: "deviceclasses", Kind: "DeviceClass", Generation: true, ReturnDeleted: true,
			ValidateName: anyName,
			Expensive:    true, Validate: rules.validateDeviceClass, Columns: deviceClassColumns(),
			Also: []builtin.Also{alsoV1beta2, {GroupVersion: resourcev1beta1.SchemeGroupVersion, Deprecated: 35}},
		}),
		builtin.Resource(builtin.Row[resourcev1.DeviceTaintRule]{
			Name: "devicetaintrules", Kind: "DeviceTaintRule",
			Gate: feature.DRADeviceTaintRules, StorageVersion: v1beta2, ReturnDeleted: true,
			Status: true, StatusKeeps: []string{"metadata"}, Generation: true,
			Default: defaultTaintRule, PrepareUpdate: prepareTaintRuleUpdate, Validate: validateTaintRule,
			ValidateStatus: validateTaintRuleStatus, Columns: taintRuleColumns(),
			Also: []builtin.Also{
				{GroupVersion: v1beta2},
				{GroupVersion: resourcev1alpha3.SchemeGroupVersion, Deprecated: 36},
			},
		}),
		builtin.Resource(builtin.Row[resourcev1.ResourceClaim]{
			Name: "resourceclaims", Kind: "ResourceClaim", Namespaced: true, ReturnDeleted: true,
			Status: true, StatusKeeps: []string{"metadata"},
			Gated: gatedClaim(), Default: defaultClaim, PrepareStatus: prepareClaimStatus,
			Expensive: true, Permit: permitClaim, Validate: rules.validateClaim,
			PermitStatus: permitClaimStatus, ValidateStatus: validateClaimStatus, Columns: claimColumns(),
			Also: []builtin.Also{alsoV1beta2, {Version: claimV1beta1(), Deprecated: 35}},
		}),
		builtin.Resource(builtin.Row[resourcev1.ResourceClaimTemplate]{
			Name: "resourceclaimtemplates", Kind: "ResourceClaimTemplate", Namespaced: true, ReturnDeleted: true,
			Gated: gatedClaimTemplate(), Default: defaultClaimTemplate,
			Expensive: true, Permit: permitClaimTemplate, Validate: rules.validateClaimTemplate, Columns: claimTemplateColumns(),
			Also: []builtin.Also{alsoV1beta2, {Version: claimTemplateV1beta1(), Deprecated: 35}},
		}),
		builtin.Resource(builtin.Row[resourcev1.ResourceSlice]{
			Name: "resourceslices", Kind: "ResourceSlice", Generation: true, ReturnDeleted: true,
			SelectableFields: []string{nodeName, driver}, Fields: sliceFields, FieldLabel: sliceFieldLabel(resourcev1.SchemeGroupVersion),
			Gated: gatedSlice(), Default: defaultSlice, PrepareUpdate: countSliceUpdate,
			Expensive: true, Validate: validateSlice, Warnings: sliceWarnings, Columns: sliceColumns(),
			Also: []builtin.Also{
				{GroupVersion: v1beta2, Deprecated: 36, FieldLabel: sliceFieldLabel(v1beta2)},
				{Version: sliceV1beta1(), Deprecated: 35, FieldLabel: sliceFieldLabel(resourcev1beta1.SchemeGroupVersion)},
			},
		}),
	}}
}

// V1Alpha3 returns the resources that only resource.k8s.io/v1alpha3 has.
func V1Alpha3() builtin.Group {
	return builtin.Group{GroupVersion: resourcev1alpha3.SchemeGroupVersion, Resources: []builtin.Entry{
		builtin.Resource(builtin.Row[resourcev1alpha3.ResourcePoolStatusRequest]{
			Name: "resourcepoolstatusrequests", Kind: "ResourcePoolStatusRequest", Gate: feature.DRAResourcePoolStatus,
			RequireResourceVersion: true, ReturnDeleted: true,
			Status: true, StatusKeeps: []string{"metadata"},
			Default: defaultPoolRequest, Validate: validatePoolRequest, ValidateStatus: validatePoolRequestStatus, Columns: poolRequestColumns(),
		}),
	}}
}
