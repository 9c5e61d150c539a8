package host

import (
	"context"
	"errors"

	"mainstay.dev/mainstay/internal/apis/controlplanes"
	"mainstay.dev/mainstay/internal/feature"
	"mainstay.dev/mainstay/internal/host/fleet"
)

// errNoControlPlanes is returned if the feature gate is disabled.
var errNoControlPlanes = errors.New("the feature gate " + string(feature.ControlPlanes) + " is disabled")

// CreateControlPlane creates a ControlPlane object and returns the credentials of its administrator. If
// from is not nil, the control plane is a fork; otherwise it is empty. The server must be serving. It is
// safe for concurrent use. It returns an error if the feature gate is disabled, and the errors of
// Fleet.Create.
func (h *Host) CreateControlPlane(ctx context.Context, name string, from *controlplanes.Source) (fleet.Credentials, error) {
	if h.fleet == nil {
		return fleet.Credentials{}, errNoControlPlanes
	}
	return h.fleet.Create(ctx, name, from)
}

// DeleteControlPlane starts the deletion of a ControlPlane object. It returns an API error with reason
// NotFound if the object does not exist, and an error if the feature gate is disabled. It is safe for
// concurrent use.
func (h *Host) DeleteControlPlane(ctx context.Context, name string) error {
	if h.fleet == nil {
		return errNoControlPlanes
	}
	return h.fleet.Delete(ctx, name)
}
