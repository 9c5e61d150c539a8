// Package resource declares the resources of resource.k8s.io, which describe devices and claims for devices.
// The scheduler allocates the devices.
package resource

import (
	resourcev1 "k8s.io/api/resource/v1"
	resourcev1alpha3 "k8s.io/api/resource/v1alpha3"
	resourcev1beta1 "k8s.io/api/resource/v1beta1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"mainstay.dev/mainstay/internal/apis/builtin"
	"mainstay.dev/mainstay/internal/feature"
)

// V1 returns the group version resource.k8s.io/v1.
func V1() builtin.Group {
	v1beta2 := schema.GroupVersion{Group: resourcev1.GroupName, Version: "v1beta2"}
	deprecatedV1beta2 := builtin.Version{GroupVersion: v1beta2, Deprecated: 36}
	rules := &selectors{}
	return builtin.Group{GroupVersion: resourcev1.SchemeGroupVersion, Resources: []builtin.Entry{
		builtin.Resource(builtin.Row[*resourcev1.DeviceClass]{
			Names:       builtin.Names{Plural: "deviceclasses", Kind: "DeviceClass"},
			Versions:    builtin.Versions{Others: []builtin.Version{deprecatedV1beta2, {GroupVersion: resourcev1beta1.SchemeGroupVersion, Deprecated: 35}}},
			WritePolicy: builtin.WritePolicy{Generation: true, ReturnDeletedObject: true, ExpensiveValidation: true, ValidateName: anyName},
			Strategy:    builtin.Strategy[*resourcev1.DeviceClass]{Validate: rules.validateDeviceClass},
			Columns:     deviceClassColumns(),
		}),
		builtin.Resource(builtin.Row[*resourcev1.DeviceTaintRule]{
			Names: builtin.Names{Plural: "devicetaintrules", Kind: "DeviceTaintRule"}, Gate: feature.DRADeviceTaintRules,
			Versions: builtin.Versions{
				Others: []builtin.Version{
					{GroupVersion: v1beta2},
					{GroupVersion: resourcev1alpha3.SchemeGroupVersion, Deprecated: 36},
				},
			},
			Storage:     builtin.Storage{Version: v1beta2},
			WritePolicy: builtin.WritePolicy{Generation: true, ReturnDeletedObject: true},
			Strategy: builtin.Strategy[*resourcev1.DeviceTaintRule]{
				Default: defaultTaintRule, PrepareForUpdate: prepareTaintRuleUpdate,
				Validate: validateTaintRule,
			},
			Status:  &builtin.Status[*resourcev1.DeviceTaintRule]{PreservedMetadata: []string{"metadata"}, Validate: validateTaintRuleStatus},
			Columns: taintRuleColumns(),
		}),
		builtin.Resource(builtin.Row[*resourcev1.ResourceClaim]{
			Names: builtin.Names{Plural: "resourceclaims", Kind: "ResourceClaim"}, Namespaced: true,
			Versions:    builtin.Versions{Others: []builtin.Version{deprecatedV1beta2, {Conversion: claimV1beta1(), Deprecated: 35}}},
			WritePolicy: builtin.WritePolicy{ReturnDeletedObject: true, ExpensiveValidation: true},
			Strategy: builtin.Strategy[*resourcev1.ResourceClaim]{
				Default:          defaultClaim,
				GatedFields:      gatedClaim(),
				ValidateExternal: validateClaimAccess, Validate: rules.validateClaim,
			},
			Status: &builtin.Status[*resourcev1.ResourceClaim]{
				PreservedMetadata: []string{"metadata"}, PrepareForUpdate: prepareClaimStatus, ValidateExternal: validateClaimStatusAccess,
				Validate: validateClaimStatus,
			},
			Columns: claimColumns(),
		}),
		builtin.Resource(builtin.Row[*resourcev1.ResourceClaimTemplate]{
			Names: builtin.Names{Plural: "resourceclaimtemplates", Kind: "ResourceClaimTemplate"}, Namespaced: true,
			Versions:    builtin.Versions{Others: []builtin.Version{deprecatedV1beta2, {Conversion: claimTemplateV1beta1(), Deprecated: 35}}},
			WritePolicy: builtin.WritePolicy{ReturnDeletedObject: true, ExpensiveValidation: true},
			Strategy: builtin.Strategy[*resourcev1.ResourceClaimTemplate]{
				Default:          defaultClaimTemplate,
				GatedFields:      gatedClaimTemplate(),
				ValidateExternal: validateClaimTemplateAccess, Validate: rules.validateClaimTemplate,
			},
			Columns: claimTemplateColumns(),
		}),
		builtin.Resource(builtin.Row[*resourcev1.ResourceSlice]{
			Names: builtin.Names{Plural: "resourceslices", Kind: "ResourceSlice"},
			Versions: builtin.Versions{
				Others: []builtin.Version{
					{GroupVersion: v1beta2, Deprecated: 36, ConvertLabel: sliceFieldLabel(v1beta2)},
					{Conversion: sliceV1beta1(), Deprecated: 35, ConvertLabel: sliceFieldLabel(resourcev1beta1.SchemeGroupVersion)},
				},
			},
			WritePolicy: builtin.WritePolicy{Generation: true, ReturnDeletedObject: true, ExpensiveValidation: true},
			Strategy: builtin.Strategy[*resourcev1.ResourceSlice]{
				Default:     defaultSlice,
				GatedFields: gatedSlice(), PrepareForUpdate: countSliceUpdate,
				Validate: validateSlice, Warnings: sliceWarnings,
			},
			FieldSelectors: builtin.FieldSelectors[*resourcev1.ResourceSlice]{
				Keys: []string{nodeName, driver}, ConvertLabel: sliceFieldLabel(resourcev1.SchemeGroupVersion),
				Values: sliceFields,
			},
			Columns: sliceColumns(),
		}),
	}}
}

// V1Alpha3 returns the resources that exist only in resource.k8s.io/v1alpha3.
func V1Alpha3() builtin.Group {
	return builtin.Group{GroupVersion: resourcev1alpha3.SchemeGroupVersion, Resources: []builtin.Entry{
		builtin.Resource(builtin.Row[*resourcev1alpha3.ResourcePoolStatusRequest]{
			Names: builtin.Names{Plural: "resourcepoolstatusrequests", Kind: "ResourcePoolStatusRequest"}, Gate: feature.DRAResourcePoolStatus,
			WritePolicy: builtin.WritePolicy{RequireResourceVersion: true, ReturnDeletedObject: true},
			Strategy:    builtin.Strategy[*resourcev1alpha3.ResourcePoolStatusRequest]{Default: defaultPoolRequest, Validate: validatePoolRequest},
			Status: &builtin.Status[*resourcev1alpha3.ResourcePoolStatusRequest]{
				PreservedMetadata: []string{"metadata"}, Validate: validatePoolRequestStatus,
			},
			Columns: poolRequestColumns(),
		}),
	}}
}
