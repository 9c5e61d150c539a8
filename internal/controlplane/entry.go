package controlplane

import (
	"context"
	"errors"
	"net/http"

	"mainstay.dev/mainstay/internal/authorizer"
	"mainstay.dev/mainstay/internal/filters"
	"mainstay.dev/mainstay/internal/loopback"
	"mainstay.dev/mainstay/internal/request"
)

// errNotOpen is returned by methods that need an open control plane.
var errNotOpen = errors.New("the control plane is not open")

// instance returns the open instance, or errNotOpen.
func (c *ControlPlane) instance() (*instance, error) {
	if opened := c.opened.Load(); opened != nil {
		return opened, nil
	}
	return nil, errNotOpen
}

// Authenticate authenticates a request to another control plane as a user of this control plane. It never
// returns an anonymous user. It returns nil, nil for a request without credentials for this control plane, and
// an error if the control plane is not open or rejects the credentials.
func (c *ControlPlane) Authenticate(r *http.Request) (*request.Authentication, error) {
	opened, err := c.instance()
	if err != nil {
		return nil, err
	}
	return opened.authenticator.Authenticate(r)
}

// Authorize implements authorizer.Authorizer. It denies all requests while the control plane is not
// open.
func (c *ControlPlane) Authorize(ctx context.Context, attributes *authorizer.Attributes) (authorizer.Decision, string, error) {
	opened, err := c.instance()
	if err != nil {
		return authorizer.DecisionDeny, "", err
	}
	return opened.authorization.authorizer.Authorize(ctx, attributes)
}

// Access returns access to the objects of the control plane, or an error if the control plane is not open.
func (c *ControlPlane) Access() (*loopback.Access, error) {
	opened, err := c.instance()
	if err != nil {
		return nil, err
	}
	return opened.resources.access, nil
}

// Audit returns the audit policy and backends of the control plane. It returns nil if audit is disabled or
// the control plane is not open.
func (c *ControlPlane) Audit() *filters.AuditConfig {
	opened, err := c.instance()
	if err != nil {
		return nil
	}
	return opened.audit
}
