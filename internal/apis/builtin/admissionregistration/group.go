// Package admissionregistration declares the resources of admissionregistration.k8s.io. Admission
// plugins evaluate them.
package admissionregistration

import (
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"mainstay.dev/mainstay/internal/apis/builtin"
	"mainstay.dev/mainstay/internal/feature"
)

// V1 is admissionregistration.k8s.io/v1.
func V1() builtin.Group {
	extensions := []string{"api-extensions"}
	v1beta1 := schema.GroupVersion{Group: admissionregistrationv1.GroupName, Version: "v1beta1"}
	mutatingAlso := []builtin.Also{
		{GroupVersion: v1beta1, Deprecated: 37, Successor: "v1"},
		{GroupVersion: schema.GroupVersion{Group: admissionregistrationv1.GroupName, Version: "v1alpha1"}, Deprecated: 35},
	}
	return builtin.Group{GroupVersion: admissionregistrationv1.SchemeGroupVersion, Resources: []builtin.Entry{
		builtin.Resource(builtin.Row[admissionregistrationv1.MutatingAdmissionPolicy]{
			Name: "mutatingadmissionpolicies", Kind: "MutatingAdmissionPolicy", Categories: extensions, AnyFinalizer: true, Warnings: warnOfStatic[admissionregistrationv1.MutatingAdmissionPolicy],
			Gate: feature.MutatingAdmissionPolicy, StorageVersion: v1beta1, Generation: true, RequireResourceVersion: true,
			Default: defaultMutatingPolicy, Permit: permitMutatingPolicy, Validate: validateMutatingPolicy, Expensive: true, Columns: mutatingPolicyColumns(), Also: mutatingAlso,
		}),
		builtin.Resource(builtin.Row[admissionregistrationv1.MutatingAdmissionPolicyBinding]{
			Name: "mutatingadmissionpolicybindings", Kind: "MutatingAdmissionPolicyBinding", Categories: extensions, AnyFinalizer: true, Warnings: warnOfStatic[admissionregistrationv1.MutatingAdmissionPolicyBinding],
			Gate: feature.MutatingAdmissionPolicy, StorageVersion: v1beta1, Generation: true, RequireResourceVersion: true,
			Default: defaultMutatingBinding, Permit: permitMutatingBinding, Validate: validateMutatingBinding, Columns: mutatingBindingColumns(), Also: mutatingAlso,
		}),
		builtin.Resource(builtin.Row[admissionregistrationv1.MutatingWebhookConfiguration]{
			Name: "mutatingwebhookconfigurations", Kind: "MutatingWebhookConfiguration", Categories: extensions, AnyFinalizer: true, Warnings: warnOfStatic[admissionregistrationv1.MutatingWebhookConfiguration],
			Generation: true, RequireResourceVersion: true,
			Default: defaultMutatingWebhooks, Validate: validateMutatingWebhooks, Expensive: true, Columns: mutatingWebhookColumns(),
		}),
		builtin.Resource(builtin.Row[admissionregistrationv1.ValidatingAdmissionPolicy]{
			Name: "validatingadmissionpolicies", Kind: "ValidatingAdmissionPolicy", Categories: extensions, AnyFinalizer: true, Warnings: warnOfStatic[admissionregistrationv1.ValidatingAdmissionPolicy],
			Status: true, StatusKeeps: []string{"metadata"}, Generation: true, RequireResourceVersion: true,
			Default: defaultValidatingPolicy, Prepare: prepareValidatingPolicy, PrepareUpdate: prepareValidatingPolicyUpdate,
			Permit: permitValidatingPolicy, Validate: validateValidatingPolicy,
			ValidateStatus: validateValidatingPolicyStatus, Expensive: true, Columns: validatingPolicyColumns(),
		}),
		builtin.Resource(builtin.Row[admissionregistrationv1.ValidatingAdmissionPolicyBinding]{
			Name: "validatingadmissionpolicybindings", Kind: "ValidatingAdmissionPolicyBinding", Categories: extensions, AnyFinalizer: true, Warnings: warnOfStatic[admissionregistrationv1.ValidatingAdmissionPolicyBinding],
			Generation: true, RequireResourceVersion: true,
			Default: defaultValidatingBinding, Permit: permitValidatingBinding, Validate: validateValidatingBinding, Columns: validatingBindingColumns(),
		}),
		builtin.Resource(builtin.Row[admissionregistrationv1.ValidatingWebhookConfiguration]{
			Name: "validatingwebhookconfigurations", Kind: "ValidatingWebhookConfiguration", Categories: extensions, AnyFinalizer: true, Warnings: warnOfStatic[admissionregistrationv1.ValidatingWebhookConfiguration],
			Generation: true, RequireResourceVersion: true,
			Default: defaultValidatingWebhooks, Validate: validateValidatingWebhooks, Expensive: true, Columns: validatingWebhookColumns(),
		}),
	}}
}
