package webhooks

import "time"

// State is the state of a webhook after its calls.
type State struct {
	// Kind and Configuration name the configuration; Webhook is one of its webhooks.
	Kind          string `json:"kind"`
	Configuration string `json:"configuration"`
	Webhook       string `json:"webhook"`
	// Failures is the number of consecutive failures, and LastFailure the last one.
	Failures    int    `json:"failures"`
	LastFailure string `json:"lastFailure,omitempty"`
	// Spared reports that it is called less often because of failures.
	Spared bool `json:"spared"`
}

// States returns the states of all webhooks in calling order.
func (p *plugin) States() []State {
	all := p.source.index.Load().All()
	states := make([]State, len(all))
	for i, h := range all {
		states[i] = p.state(h.hook)
	}
	return states
}

func (p *plugin) state(h *hook) State {
	s := State{Kind: "ValidatingWebhookConfiguration", Configuration: h.configuration, Webhook: h.spec.Name}
	if p.mutates {
		s.Kind = "MutatingWebhookConfiguration"
	}
	failures, last := h.breaker.state()
	s.Failures, s.Spared = failures, failures >= breakerFailures
	if last != nil {
		s.LastFailure = last.Error()
	}
	return s
}

// report logs and publishes that a webhook is spared or has recovered.
func (p *plugin) report(h *hook, spared bool) {
	if p.config.Report != nil && h.breaker.reports(spared, time.Now()) {
		p.config.Report(p.state(h))
	}
}
