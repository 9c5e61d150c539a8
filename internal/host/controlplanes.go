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

// CreateControlPlane creates a ControlPlane object and returns the credentials of its
// administrator. from makes it a fork; nil makes it empty. The server must be serving. It is safe
// for concurrent use. It returns an error if the feature gate is disabled, and the errors of
// Fleet.Create.
func (h *Host) CreateControlPlane(ctx context.Context, name string, from *controlplanes.Source) (fleet.Credentials, error) {
	if h.fleet == nil {
		return fleet.Credentials{}, errNoControlPlanes
	}
	return h.fleet.Create(ctx, name, from)
}

// DeleteControlPlane starts the deletion of a ControlPlane object. A missing object is an API error
// with reason NotFound. It also returns an error if the feature gate is disabled.
func (h *Host) DeleteControlPlane(ctx context.Context, name string) error {
	if h.fleet == nil {
		return errNoControlPlanes
	}
	return h.fleet.Delete(ctx, name)
}
