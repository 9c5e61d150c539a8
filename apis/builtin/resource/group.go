// Package resource declares the resources of resource.k8s.io: devices, and who
// claims them. It allocates none.
//
// Imports: apis/builtin, apis/builtin/declarative/resource,
// apis/builtin/podspec, apis/builtin/validation, authorizer, cel/environment,
// cel/library, feature, request.
package resource

import (
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"mainstay.dev/mainstay/apis/builtin"
)

// V1 is resource.k8s.io/v1.
func V1() builtin.Group {
	rules := &selectors{}
	return builtin.Group{GroupVersion: resourcev1.SchemeGroupVersion, Resources: []builtin.Entry{
		builtin.Resource(builtin.Row[resourcev1.DeviceClass]{
			Name: "deviceclasses", Kind: "DeviceClass", Generation: true, ReturnDeleted: true,
			ValidateName: anyName,
			Expensive:    true, Validate: rules.validateDeviceClass, Columns: deviceClassColumns(),
		}),
		builtin.Resource(builtin.Row[resourcev1.DeviceTaintRule]{
			Name: "devicetaintrules", Kind: "DeviceTaintRule",
			StorageVersion: schema.GroupVersion{Group: resourcev1.GroupName, Version: "v1beta2"}, ReturnDeleted: true,
			Status: true, StatusKeeps: []string{"metadata"}, Generation: true,
			Default: defaultTaintRule, PrepareUpdate: prepareTaintRuleUpdate, Validate: validateTaintRule,
			ValidateStatus: validateTaintRuleStatus, Columns: taintRuleColumns(),
		}),
		builtin.Resource(builtin.Row[resourcev1.ResourceClaim]{
			Name: "resourceclaims", Kind: "ResourceClaim", Namespaced: true, ReturnDeleted: true,
			Status: true, StatusKeeps: []string{"metadata"},
			Default: defaultClaim, PrepareStatus: prepareClaimStatus,
			Expensive: true, Permit: permitClaim, Validate: rules.validateClaim,
			PermitStatus: permitClaimStatus, ValidateStatus: validateClaimStatus, Columns: claimColumns(),
		}),
		builtin.Resource(builtin.Row[resourcev1.ResourceClaimTemplate]{
			Name: "resourceclaimtemplates", Kind: "ResourceClaimTemplate", Namespaced: true, ReturnDeleted: true,
			Default: defaultClaimTemplate, Expensive: true, Permit: permitClaimTemplate, Validate: rules.validateClaimTemplate, Columns: claimTemplateColumns(),
		}),
		builtin.Resource(builtin.Row[resourcev1.ResourceSlice]{
			Name: "resourceslices", Kind: "ResourceSlice", Generation: true, ReturnDeleted: true,
			SelectableFields: []string{nodeName, driver}, Fields: sliceFields, FieldLabel: sliceFieldLabel,
			Default: defaultSlice, Prepare: prepareSlice, PrepareUpdate: countSliceUpdate, Expensive: true, Validate: validateSlice,
			Warnings: sliceWarnings, Columns: sliceColumns(),
		}),
	}}
}
