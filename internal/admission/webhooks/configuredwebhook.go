// Package webhooks contains the plugins that call admission webhooks: mutating webhooks sequentially,
// validating webhooks concurrently. It builds the reviews and evaluates the responses. Package webhook performs
// the calls, and package match selects the requests.
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

// configuredWebhook is one webhook of a configuration. Its spec is immutable: if the spec changes, a new
// configuredWebhook is created.
type configuredWebhook struct {
	configuration string
	// id is unique among all configurations of a kind.
	id string
	// spec is used for validating webhooks as well. They have the same fields, except reinvocationPolicy.
	spec       admissionregistrationv1.MutatingWebhook
	matcher    *match.Matcher
	conditions Conditions // nil without conditions
	client     *webhook.Client
	// clientErr is the reason why client is nil.
	clientErr error
	breaker   breaker
}

// Matcher implements match.Matchable.
func (h *configuredWebhook) Matcher() *match.Matcher { return h.matcher }

// close releases the client of the webhook. It does not interrupt calls in progress.
func (h *configuredWebhook) close() {
	if h.client != nil {
		h.client.Close()
	}
}

// startDecision starts recording the decision of the webhook. It returns nil if no explanation was requested.
func (h *configuredWebhook) startDecision(a *admission.Attributes) *admission.DecisionRecorder {
	return a.StartDecision(admission.Decision{Configuration: h.configuration, Webhook: h.spec.Name})
}

// ignoresFailures reports whether a request is admitted if the call of the webhook fails.
func (h *configuredWebhook) ignoresFailures() bool {
	return h.spec.FailurePolicy != nil && *h.spec.FailurePolicy == admissionregistrationv1.Ignore
}

// reinvocable reports whether the webhook is called again if the object is modified after its call.
func (h *configuredWebhook) reinvocable() bool {
	return h.spec.ReinvocationPolicy != nil && *h.spec.ReinvocationPolicy == admissionregistrationv1.IfNeededReinvocationPolicy
}

// defaultTimeout is the timeout of webhooks that were stored without a timeout.
const defaultTimeout = 30 * time.Second

func (h *configuredWebhook) timeout() time.Duration {
	if h.spec.TimeoutSeconds == nil {
		return defaultTimeout
	}
	return time.Duration(*h.spec.TimeoutSeconds) * time.Second
}

// updateWebhooks returns the webhooks of a configuration. It keeps unchanged webhooks, including their state,
// and closes changed and removed webhooks.
func (c *Config) updateWebhooks(configuration string, specs []admissionregistrationv1.MutatingWebhook, before []*configuredWebhook) []*configuredWebhook {
	had := make(map[string]*configuredWebhook, len(before))
	for _, h := range before {
		had[h.id] = h
	}
	hooks := make([]*configuredWebhook, 0, len(specs))
	same := map[string]int{} // the number of webhooks by name; names may repeat
	for i := range specs {
		id := fmt.Sprintf("%s/%s/%d", configuration, specs[i].Name, same[specs[i].Name])
		same[specs[i].Name]++
		h := had[id]
		if h == nil || !equality.Semantic.DeepEqual(&h.spec, &specs[i]) {
			h = c.newWebhook(configuration, id, &specs[i])
		}
		hooks = append(hooks, h)
	}
	for _, h := range before {
		if !slices.Contains(hooks, h) {
			h.close()
			c.Metrics.deleteSeries(h)
		}
	}
	return hooks
}

func (c *Config) newWebhook(configuration, id string, spec *admissionregistrationv1.MutatingWebhook) *configuredWebhook {
	h := &configuredWebhook{configuration: configuration, id: id, spec: *spec, matcher: match.New(resourcesOf(spec))}
	if len(spec.MatchConditions) > 0 {
		h.conditions = c.Compile(spec.MatchConditions, h.ignoresFailures())
	}
	h.client, h.clientErr = c.Clients.Client(targetOf(&spec.ClientConfig))
	return h
}

// resourcesOf converts the rules and selectors of a webhook to the MatchResources of a policy.
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
