// Package webhooks contains the plugins that call admission webhooks: mutating webhooks
// sequentially, validating webhooks concurrently. It defines requests and responses; package
// webhook performs the calls, and package match selects the requests.
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
	// id identifies the webhook among all configurations of a kind.
	id string
	// spec is that of a validating webhook as well, which has the same fields but
	// for reinvocation.
	spec       admissionregistrationv1.MutatingWebhook
	matcher    *match.Matcher
	conditions Conditions // nil without conditions
	client     *webhook.Client
	broken     error // why there is no client
	breaker    breaker
}

// Matcher implements match.Matching.
func (h *hook) Matcher() *match.Matcher { return h.matcher }

// close releases the connections. Calls in progress are not interrupted.
func (h *hook) close() {
	if h.client != nil {
		h.client.Close()
	}
}

// decide starts the explanation of the webhook.
func (h *hook) decide(a *admission.Attributes) *admission.DecisionRecorder {
	return a.StartDecision(admission.Decision{Configuration: h.configuration, Webhook: h.spec.Name})
}

// ignoresFailures reports whether a request is admitted if the call fails.
func (h *hook) ignoresFailures() bool {
	return h.spec.FailurePolicy != nil && *h.spec.FailurePolicy == admissionregistrationv1.Ignore
}

// reinvocable reports whether the webhook is called again after later modifications.
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

// newHooks creates the webhooks of a configuration. It reuses unchanged ones with their state.
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

// resourcesOf returns the rules of a webhook in the form of a policy.
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
