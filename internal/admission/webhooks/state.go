package webhooks

import "time"

// State is what is known of a webhook from the calls so far.
type State struct {
	// Kind and Configuration name the configuration; Webhook is one of its webhooks.
	Kind          string `json:"kind"`
	Configuration string `json:"configuration"`
	Webhook       string `json:"webhook"`
	// Failures are those in a row, and LastFailure is the last one.
	Failures    int    `json:"failures"`
	LastFailure string `json:"lastFailure,omitempty"`
	// Spared: it is asked less often, because of its failures.
	Spared bool `json:"spared"`
}

// States are those of all webhooks, in the order in which they are asked.
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

// report tells people that a webhook is spared from now on, or answers again.
func (p *plugin) report(h *hook, spared bool) {
	if p.config.Report != nil && h.breaker.reports(spared, time.Now()) {
		p.config.Report(p.state(h))
	}
}
