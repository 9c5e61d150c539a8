package plugin

import (
	"mainstay.dev/mainstay/internal/admission"
	"mainstay.dev/mainstay/internal/feature"
)

// This file registers the plugins that packages admission/policies and admission/webhooks implement. These
// plugins are configured with API objects.

func mutatingAdmissionPolicyPlugin() Registration {
	return Registration{
		Name: "MutatingAdmissionPolicy", Description: "changes objects according to MutatingAdmissionPolicies",
		OnByDefault: true, Gate: feature.MutatingAdmissionPolicy,
		New: func(d Dependencies) admission.Plugin { return d.MutatingPolicies },
	}
}

func mutatingAdmissionWebhookPlugin() Registration {
	return Registration{
		Name: "MutatingAdmissionWebhook", Description: "calls webhooks that change objects",
		OnByDefault: true,
		New:         func(d Dependencies) admission.Plugin { return d.MutatingWebhooks },
	}
}

func validatingAdmissionPolicyPlugin() Registration {
	return Registration{
		Name: "ValidatingAdmissionPolicy", Description: "rejects objects that violate ValidatingAdmissionPolicies",
		OnByDefault: true,
		New:         func(d Dependencies) admission.Plugin { return d.ValidatingPolicies },
	}
}

func validatingAdmissionWebhookPlugin() Registration {
	return Registration{
		Name: "ValidatingAdmissionWebhook", Description: "calls webhooks that accept or reject objects",
		OnByDefault: true,
		New:         func(d Dependencies) admission.Plugin { return d.ValidatingWebhooks },
	}
}
