package controlplane

import (
	"context"
	"strings"
	"time"

	"mainstay.dev/mainstay/internal/feature"
	"mainstay.dev/mainstay/internal/feature/emulation"
	"mainstay.dev/mainstay/internal/storage/reflector"
)

// settings contains the inputs of all components of a control plane. The values do not change.
type settings struct {
	env     *Env
	prefix  string
	options Options // with defaults
	gates   feature.Gates
	// release is the emulated version; nil emulates none.
	release *emulation.Release
	// readOnly is set if the backend is a view of the past, to which nothing is written.
	readOnly bool
	// pathPrefix precedes the paths of the API in documents.
	pathPrefix string
	// lifetime ends when the control plane is closed.
	lifetime context.Context
	started  time.Time
}

func newSettings(c *ControlPlane) *settings {
	gates := c.env.Shared.enabledGates(&c.options)
	return &settings{
		env: c.env, prefix: c.prefix, options: c.options,
		gates: gates, release: emulation.New(c.options.Features.Emulation.Minor, gates),
		pathPrefix: c.env.Network.PathPrefix, lifetime: c.lifetime, started: time.Now(),
	}
}

// keyPrefix returns the prefix of all keys, such as "/registry".
func (s *settings) keyPrefix() string { return "/" + strings.Trim(s.prefix, "/") }

func (s *settings) reflectorMetrics() *reflector.Metrics {
	return s.env.Telemetry.Metrics.Storage.Reflectors
}
