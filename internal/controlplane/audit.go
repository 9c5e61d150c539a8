package controlplane

import (
	"mainstay.dev/mainstay/internal/filters"
	"mainstay.dev/mainstay/internal/filters/audit"
)

// newAudit reads the audit policy and opens the backends for audit events, unless the host provides both. It
// returns nil if audit is disabled.
func newAudit(s *settings, onError filters.ErrorWriter) (*filters.AuditConfig, error) {
	if shared := s.env.Telemetry.Audit; shared != nil {
		return &filters.AuditConfig{Rules: shared.Rules, Sink: shared.Sink, OnError: onError}, nil
	}
	rules, sink, err := audit.Open(audit.Config{
		Options: s.options.Audit, Metrics: s.env.Telemetry.Metrics.Security.Audit, Logger: s.env.Telemetry.Logger, FlushTimeout: s.options.Requests.Timeout,
		Dial: s.env.Network.Networks.ControlPlane,
	})
	if err != nil || sink == nil {
		return nil, err
	}
	return &filters.AuditConfig{Rules: rules, Sink: sink, OnError: onError}, nil
}
