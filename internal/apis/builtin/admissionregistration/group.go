// Package admissionregistration declares the resources of admissionregistration.k8s.io. Admission plugins
// evaluate the objects of these resources.
package admissionregistration

import (
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"mainstay.dev/mainstay/internal/apis/builtin"
	"mainstay.dev/mainstay/internal/feature"
)

// V1 returns the group version admissionregistration.k8s.io/v1.
func V1() builtin.Group {
	extensions := []string{"api-extensions"}
	v1beta1 := schema.GroupVersion{Group: admissionregistrationv1.GroupName, Version: "v1beta1"}
	otherMutating := []builtin.Version{
		{GroupVersion: v1beta1, Deprecated: 37, Successor: "v1"},
		{GroupVersion: schema.GroupVersion{Group: admissionregistrationv1.GroupName, Version: "v1alpha1"}, Deprecated: 35},
	}
	return builtin.Group{GroupVersion: admissionregistrationv1.SchemeGroupVersion, Resources: []builtin.Entry{
		builtin.Resource(builtin.Row[*admissionregistrationv1.MutatingAdmissionPolicy]{
			Names: builtin.Names{Plural: "mutatingadmissionpolicies", Kind: "MutatingAdmissionPolicy", Categories: extensions}, Gate: feature.MutatingAdmissionPolicy,
			Versions:    builtin.Versions{Others: otherMutating},
			Storage:     builtin.Storage{Version: v1beta1},
			WritePolicy: builtin.WritePolicy{Generation: true, RequireResourceVersion: true, AllowAnyFinalizer: true, ExpensiveValidation: true},
			Strategy: builtin.Strategy[*admissionregistrationv1.MutatingAdmissionPolicy]{
				Default:          defaultMutatingPolicy,
				ValidateExternal: validateMutatingPolicyAccess, Validate: validateMutatingPolicy,
				Warnings: warnOfStatic[admissionregistrationv1.MutatingAdmissionPolicy],
			},
			Columns: mutatingPolicyColumns(),
		}),
		builtin.Resource(builtin.Row[*admissionregistrationv1.MutatingAdmissionPolicyBinding]{
			Names: builtin.Names{Plural: "mutatingadmissionpolicybindings", Kind: "MutatingAdmissionPolicyBinding", Categories: extensions}, Gate: feature.MutatingAdmissionPolicy,
			Versions:    builtin.Versions{Others: otherMutating},
			Storage:     builtin.Storage{Version: v1beta1},
			WritePolicy: builtin.WritePolicy{Generation: true, RequireResourceVersion: true, AllowAnyFinalizer: true},
			Strategy: builtin.Strategy[*admissionregistrationv1.MutatingAdmissionPolicyBinding]{
				Default:          defaultMutatingBinding,
				ValidateExternal: validateMutatingBindingAccess, Validate: validateMutatingBinding,
				Warnings: warnOfStatic[admissionregistrationv1.MutatingAdmissionPolicyBinding],
			},
			Columns: mutatingBindingColumns(),
		}),
		builtin.Resource(builtin.Row[*admissionregistrationv1.MutatingWebhookConfiguration]{
			Names:       builtin.Names{Plural: "mutatingwebhookconfigurations", Kind: "MutatingWebhookConfiguration", Categories: extensions},
			WritePolicy: builtin.WritePolicy{Generation: true, RequireResourceVersion: true, AllowAnyFinalizer: true, ExpensiveValidation: true},
			Strategy: builtin.Strategy[*admissionregistrationv1.MutatingWebhookConfiguration]{
				Default:  defaultMutatingWebhooks,
				Validate: validateMutatingWebhooks, Warnings: warnOfStatic[admissionregistrationv1.MutatingWebhookConfiguration],
			},
			Columns: mutatingWebhookColumns(),
		}),
		builtin.Resource(builtin.Row[*admissionregistrationv1.ValidatingAdmissionPolicy]{
			Names:       builtin.Names{Plural: "validatingadmissionpolicies", Kind: "ValidatingAdmissionPolicy", Categories: extensions},
			WritePolicy: builtin.WritePolicy{Generation: true, RequireResourceVersion: true, AllowAnyFinalizer: true, ExpensiveValidation: true},
			Strategy: builtin.Strategy[*admissionregistrationv1.ValidatingAdmissionPolicy]{
				Default:          defaultValidatingPolicy,
				PrepareForCreate: prepareValidatingPolicy, PrepareForUpdate: prepareValidatingPolicyUpdate,
				ValidateExternal: validateValidatingPolicyAccess, Validate: validateValidatingPolicy,
				Warnings: warnOfStatic[admissionregistrationv1.ValidatingAdmissionPolicy],
			},
			Status: &builtin.Status[*admissionregistrationv1.ValidatingAdmissionPolicy]{
				PreservedMetadata: []string{"metadata"}, Validate: validateValidatingPolicyStatus,
			},
			Columns: validatingPolicyColumns(),
		}),
		builtin.Resource(builtin.Row[*admissionregistrationv1.ValidatingAdmissionPolicyBinding]{
			Names:       builtin.Names{Plural: "validatingadmissionpolicybindings", Kind: "ValidatingAdmissionPolicyBinding", Categories: extensions},
			WritePolicy: builtin.WritePolicy{Generation: true, RequireResourceVersion: true, AllowAnyFinalizer: true},
			Strategy: builtin.Strategy[*admissionregistrationv1.ValidatingAdmissionPolicyBinding]{
				Default:          defaultValidatingBinding,
				ValidateExternal: validateValidatingBindingAccess, Validate: validateValidatingBinding,
				Warnings: warnOfStatic[admissionregistrationv1.ValidatingAdmissionPolicyBinding],
			},
			Columns: validatingBindingColumns(),
		}),
		builtin.Resource(builtin.Row[*admissionregistrationv1.ValidatingWebhookConfiguration]{
			Names:       builtin.Names{Plural: "validatingwebhookconfigurations", Kind: "ValidatingWebhookConfiguration", Categories: extensions},
			WritePolicy: builtin.WritePolicy{Generation: true, RequireResourceVersion: true, AllowAnyFinalizer: true, ExpensiveValidation: true},
			Strategy: builtin.Strategy[*admissionregistrationv1.ValidatingWebhookConfiguration]{
				Default:  defaultValidatingWebhooks,
				Validate: validateValidatingWebhooks, Warnings: warnOfStatic[admissionregistrationv1.ValidatingWebhookConfiguration],
			},
			Columns: validatingWebhookColumns(),
		}),
	}}
}
