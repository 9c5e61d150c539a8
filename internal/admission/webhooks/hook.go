// Package webhooks are the admission plugins that ask users' webhooks: those of
// MutatingWebhookConfigurations one after another, those of
// ValidatingWebhookConfigurations side by side. What a request and a response of a
// webhook look like is here; how one is called is package webhook's, which requests
// it is about is package match's.
package webhooks

import (
	"fmt"
	"slices"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"mainstay.dev/mainstay/internal/admission"
	"mainstay.dev/mainstay/internal/admission/match"
	"mainstay.dev/mainstay/internal/egress/webhook"
)

// hook is a webhook of a configuration. Its spec does not change: a write that
// changes it makes another hook.
type hook struct {
	configuration string
	// id tells the webhooks of all configurations of a kind apart.
	id string
	// spec is that of a validating webhook as well, which has the same fields but
	// for reinvocation.
	spec       admissionregistrationv1.MutatingWebhook
	matcher    *match.Matcher
	conditions Conditions // nil: it has none
	client     *webhook.Client
	broken     error // why there is no client
	breaker    breaker
}

// Matcher implements match.Matching.
func (h *hook) Matcher() *match.Matcher { return h.matcher }

// close lets go of the connections. Calls in progress end well.
func (h *hook) close() {
	if h.client != nil {
		h.client.Close()
	}
}

// decide begins to explain what the webhook does with a request.
func (h *hook) decide(a *admission.Attributes) *admission.Deciding {
	return a.Decide(admission.Decision{Configuration: h.configuration, Webhook: h.spec.Name})
}

// ignoresFailures reports whether a request may pass that the webhook could not be
// asked about.
func (h *hook) ignoresFailures() bool {
	return h.spec.FailurePolicy != nil && *h.spec.FailurePolicy == admissionregistrationv1.Ignore
}

// reinvocable reports whether the webhook is asked again after later changes.
func (h *hook) reinvocable() bool {
	return h.spec.ReinvocationPolicy != nil && *h.spec.ReinvocationPolicy == admissionregistrationv1.IfNeededReinvocationPolicy
}

// defaultTimeout is that of a webhook which was stored without.
const defaultTimeout = 30 * time.Second

func (h *hook) timeout() time.Duration {
	if h.spec.TimeoutSeconds == nil {
		return defaultTimeout
	}
	return time.Duration(*h.spec.TimeoutSeconds) * time.Second
}

// newHooks makes the webhooks of a configuration. Those that are as they were
// before are taken over, with what is known of them.
func (c *Config) newHooks(configuration string, specs []admissionregistrationv1.MutatingWebhook, before []*hook) []*hook {
	had := make(map[string]*hook, len(before))
	for _, h := range before {
		had[h.id] = h
	}
	hooks := make([]*hook, 0, len(specs))
	same := map[string]int{} // names may be there twice
	for i := range specs {
		id := fmt.Sprintf("%s/%s/%d", configuration, specs[i].Name, same[specs[i].Name])
		same[specs[i].Name]++
		h := had[id]
		if h == nil || !equality.Semantic.DeepEqual(&h.spec, &specs[i]) {
			h = c.newHook(configuration, id, &specs[i])
		}
		hooks = append(hooks, h)
	}
	for _, h := range before {
		if !slices.Contains(hooks, h) {
			h.close()
			c.Metrics.gone(h)
		}
	}
	return hooks
}

func (c *Config) newHook(configuration, id string, spec *admissionregistrationv1.MutatingWebhook) *hook {
	h := &hook{configuration: configuration, id: id, spec: *spec, matcher: match.New(resourcesOf(spec))}
	if len(spec.MatchConditions) > 0 {
		h.conditions = c.Compile(spec.MatchConditions, h.ignoresFailures())
	}
	h.client, h.broken = c.Clients.Client(targetOf(&spec.ClientConfig))
	return h
}

// resourcesOf is what a webhook is about, in the words of a policy.
func resourcesOf(spec *admissionregistrationv1.MutatingWebhook) *admissionregistrationv1.MatchResources {
	rules := make([]admissionregistrationv1.NamedRuleWithOperations, len(spec.Rules))
	for i, rule := range spec.Rules {
		rules[i].RuleWithOperations = rule
	}
	return &admissionregistrationv1.MatchResources{
		NamespaceSelector: spec.NamespaceSelector, ObjectSelector: spec.ObjectSelector,
		ResourceRules: rules, MatchPolicy: spec.MatchPolicy,
	}
}

func targetOf(config *admissionregistrationv1.WebhookClientConfig) webhook.Target {
	return webhook.TargetOf(config.URL, (*webhook.ServiceReference)(config.Service), config.CABundle)
}
