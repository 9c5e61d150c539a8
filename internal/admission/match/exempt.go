package match

import (
	"mainstay.dev/mainstay/internal/admission"
)

// IsConfiguration reports whether a request is for admission configuration, that is, for a webhook
// configuration, a policy or a binding. Stored configuration must not apply to such a request, because
// otherwise nobody could correct an invalid configuration.
func IsConfiguration(r *admission.Request) bool {
	kind := r.Kind()
	if kind.Group != "admissionregistration.k8s.io" {
		return false
	}
	switch kind.Kind {
	case "ValidatingWebhookConfiguration", "MutatingWebhookConfiguration",
		"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding", "MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding":
		return true
	}
	return false
}

// IsReview reports whether a request is for an authentication or authorization review. Reviews are not stored.
func IsReview(r *admission.Request) bool {
	switch r.Resource.Name {
	case "selfsubjectreviews", "tokenreviews":
		return r.Resource.GroupVersion.Group == "authentication.k8s.io"
	case "localsubjectaccessreviews", "selfsubjectaccessreviews", "selfsubjectrulesreviews", "subjectaccessreviews":
		return r.Resource.GroupVersion.Group == "authorization.k8s.io"
	}
	return false
}
