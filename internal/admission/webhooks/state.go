package webhooks

import "time"

// State is the state of a webhook's circuit breaker.
type State struct {
	// Kind and Configuration identify the configuration. Webhook is the name of one of its webhooks.
	Kind          string `json:"kind"`
	Configuration string `json:"configuration"`
	Webhook       string `json:"webhook"`
	// Failures is the number of consecutive failures. LastFailure is the message of the last failure, or "" if
	// the last call succeeded.
	Failures    int    `json:"failures"`
	LastFailure string `json:"lastFailure,omitempty"`
	// CircuitOpen reports whether calls are skipped because of repeated failures.
	CircuitOpen bool `json:"circuitOpen"`
}

// States returns the states of all webhooks in calling order. The caller owns the slice. It is safe
// for concurrent use.
func (p *plugin) States() []State {
	all := p.source.index.Load().All()
	states := make([]State, len(all))
	for i, h := range all {
		states[i] = p.state(h.configuredWebhook)
	}
	return states
}

func (p *plugin) state(h *configuredWebhook) State {
	s := State{Kind: "ValidatingWebhookConfiguration", Configuration: h.configuration, Webhook: h.spec.Name}
	if p.mutates {
		s.Kind = "MutatingWebhookConfiguration"
	}
	failures, last := h.breaker.state()
	s.Failures, s.CircuitOpen = failures, failures >= failureThreshold
	if last != nil {
		s.LastFailure = last.Error()
	}
	return s
}

// report calls Config.Report after the circuit of a webhook has opened or closed.
func (p *plugin) report(h *configuredWebhook, open bool) {
	if p.config.Report != nil && h.breaker.shouldReport(open, time.Now()) {
		p.config.Report(p.state(h))
	}
}
