// Package admissionregistration declares the resources of admissionregistration.k8s.io.
//
// Imports: apis/builtin.
package admissionregistration

import (
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	admissionregistrationv1beta1 "k8s.io/api/admissionregistration/v1beta1"

	"mainstay.dev/mainstay/apis/builtin"
)

// V1 is admissionregistration.k8s.io/v1.
func V1() builtin.Group {
	return builtin.Group{GroupVersion: admissionregistrationv1.SchemeGroupVersion, Resources: []builtin.Entry{
		builtin.Resource(builtin.Row[admissionregistrationv1.MutatingAdmissionPolicy]{
			Name: "mutatingadmissionpolicies", Kind: "MutatingAdmissionPolicy",
			Categories:     []string{"api-extensions"},
			StorageVersion: admissionregistrationv1beta1.SchemeGroupVersion, Generation: true, RequireResourceVersion: true,
		}),
		builtin.Resource(builtin.Row[admissionregistrationv1.MutatingAdmissionPolicyBinding]{
			Name: "mutatingadmissionpolicybindings", Kind: "MutatingAdmissionPolicyBinding",
			Categories:     []string{"api-extensions"},
			StorageVersion: admissionregistrationv1beta1.SchemeGroupVersion, Generation: true, RequireResourceVersion: true,
		}),
		builtin.Resource(builtin.Row[admissionregistrationv1.MutatingWebhookConfiguration]{
			Name: "mutatingwebhookconfigurations", Kind: "MutatingWebhookConfiguration",
			Categories: []string{"api-extensions"},
			Generation: true, RequireResourceVersion: true,
		}),
		builtin.Resource(builtin.Row[admissionregistrationv1.ValidatingAdmissionPolicy]{
			Name: "validatingadmissionpolicies", Kind: "ValidatingAdmissionPolicy",
			Categories: []string{"api-extensions"},
			Status:     true, StatusKeeps: []string{"metadata"}, Generation: true, RequireResourceVersion: true,
		}),
		builtin.Resource(builtin.Row[admissionregistrationv1.ValidatingAdmissionPolicyBinding]{
			Name: "validatingadmissionpolicybindings", Kind: "ValidatingAdmissionPolicyBinding",
			Categories: []string{"api-extensions"},
			Generation: true, RequireResourceVersion: true,
		}),
		builtin.Resource(builtin.Row[admissionregistrationv1.ValidatingWebhookConfiguration]{
			Name: "validatingwebhookconfigurations", Kind: "ValidatingWebhookConfiguration",
			Categories: []string{"api-extensions"},
			Generation: true, RequireResourceVersion: true,
		}),
	}}
}
