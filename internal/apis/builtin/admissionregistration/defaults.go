package admissionregistration

import (
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mainstay.dev/mainstay/internal/apis/builtin"
)

// Default values of webhooks.
const (
	webhookTimeout = 10 // seconds
	webhookPort    = 443
)

func defaultValidatingWebhooks(configuration *admissionregistrationv1.ValidatingWebhookConfiguration) {
	for i := range configuration.Webhooks {
		w := &configuration.Webhooks[i]
		builtin.SetDefault(&w.FailurePolicy, admissionregistrationv1.Fail)
		builtin.SetDefault(&w.TimeoutSeconds, webhookTimeout)
		defaultMatch(&w.MatchPolicy, &w.NamespaceSelector, &w.ObjectSelector)
		defaultService(w.ClientConfig.Service)
		defaultRules(w.Rules)
	}
}

func defaultMutatingWebhooks(configuration *admissionregistrationv1.MutatingWebhookConfiguration) {
	for i := range configuration.Webhooks {
		w := &configuration.Webhooks[i]
		builtin.SetDefault(&w.FailurePolicy, admissionregistrationv1.Fail)
		builtin.SetDefault(&w.TimeoutSeconds, webhookTimeout)
		builtin.SetDefault(&w.ReinvocationPolicy, admissionregistrationv1.NeverReinvocationPolicy)
		defaultMatch(&w.MatchPolicy, &w.NamespaceSelector, &w.ObjectSelector)
		defaultService(w.ClientConfig.Service)
		defaultRules(w.Rules)
	}
}

func defaultValidatingPolicy(policy *admissionregistrationv1.ValidatingAdmissionPolicy) {
	builtin.SetDefault(&policy.Spec.FailurePolicy, admissionregistrationv1.Fail)
	defaultMatchResources(policy.Spec.MatchConstraints)
}

func defaultMutatingPolicy(policy *admissionregistrationv1.MutatingAdmissionPolicy) {
	builtin.SetDefault(&policy.Spec.FailurePolicy, admissionregistrationv1.Fail)
	defaultMatchResources(policy.Spec.MatchConstraints)
}

func defaultValidatingBinding(binding *admissionregistrationv1.ValidatingAdmissionPolicyBinding) {
	defaultMatchResources(binding.Spec.MatchResources)
}

func defaultMutatingBinding(binding *admissionregistrationv1.MutatingAdmissionPolicyBinding) {
	defaultMatchResources(binding.Spec.MatchResources)
}

// defaultMatch sets the match policy Equivalent, with which a rule matches requests in all versions of its
// resource. It also sets selectors that match all objects.
func defaultMatch(policy **admissionregistrationv1.MatchPolicyType, namespaces, objects **metav1.LabelSelector) {
	builtin.SetDefault(policy, admissionregistrationv1.Equivalent)
	builtin.SetDefault(namespaces, metav1.LabelSelector{})
	builtin.SetDefault(objects, metav1.LabelSelector{})
}

func defaultMatchResources(match *admissionregistrationv1.MatchResources) {
	if match == nil {
		return
	}
	defaultMatch(&match.MatchPolicy, &match.NamespaceSelector, &match.ObjectSelector)
	for _, rules := range [...][]admissionregistrationv1.NamedRuleWithOperations{match.ResourceRules, match.ExcludeResourceRules} {
		for i := range rules {
			builtin.SetDefault(&rules[i].Scope, admissionregistrationv1.AllScopes)
		}
	}
}

func defaultRules(rules []admissionregistrationv1.RuleWithOperations) {
	for i := range rules {
		builtin.SetDefault(&rules[i].Scope, admissionregistrationv1.AllScopes)
	}
}

func defaultService(service *admissionregistrationv1.ServiceReference) {
	if service != nil {
		builtin.SetDefault(&service.Port, webhookPort)
	}
}
