package controlplane

import (
	"mainstay.dev/mainstay/internal/filters"
	"mainstay.dev/mainstay/internal/filters/audit"
)

// openAudit reads the audit policy and opens the backends; without them there are
// no filters for it.
func (i *instance) openAudit() error {
	rules, sink, err := audit.Open(audit.Config{
		Options: i.options.Audit, Metrics: i.env.Metrics.Audit, Logger: i.env.Logger, FlushTimeout: i.options.RequestTimeout,
		Dial: i.env.Networks.ControlPlane,
	})
	if sink != nil {
		i.audit = &filters.AuditConfig{Rules: rules, Sink: sink, OnError: i.api.WriteError}
		i.local.API = &auditedAPI{i.api, i}
	}
	return err
}
