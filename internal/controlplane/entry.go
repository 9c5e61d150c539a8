package controlplane

import (
	"context"
	"net/http"

	"mainstay.dev/mainstay/internal/authorizer"
	"mainstay.dev/mainstay/internal/filters"
	"mainstay.dev/mainstay/internal/loopback"
	"mainstay.dev/mainstay/internal/request"
)

// Authenticate authenticates a request to another control plane as a user of this one, without
// anonymous users. It returns nil, nil for a request without credentials of this control plane, and an
// error if the control plane is not open or rejects the credentials.
func (c *ControlPlane) Authenticate(r *http.Request) (*request.Authentication, error) {
	opened := c.opened.Load()
	if opened == nil {
		return nil, errNotOpen
	}
	return opened.authenticator.Authenticate(r)
}

// Authorize implements authorizer.Authorizer. It denies all requests while the control plane is not
// open.
func (c *ControlPlane) Authorize(ctx context.Context, attributes *authorizer.Attributes) (authorizer.Decision, string, error) {
	opened := c.opened.Load()
	if opened == nil {
		return authorizer.DecisionDeny, "", errNotOpen
	}
	return opened.authorization.authorizer.Authorize(ctx, attributes)
}

// Access returns clients for the objects of an open control plane.
func (c *ControlPlane) Access() (*loopback.Access, error) {
	opened := c.opened.Load()
	if opened == nil {
		return nil, errNotOpen
	}
	return opened.resources.access, nil
}

// Audit returns the audit policy and backends of an open control plane; nil if it has none.
func (c *ControlPlane) Audit() *filters.AuditConfig {
	opened := c.opened.Load()
	if opened == nil {
		return nil
	}
	return opened.audit
}
