package host

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"mainstay.dev/mainstay/internal/controlplane"
	"mainstay.dev/mainstay/internal/egress/selector"
	"mainstay.dev/mainstay/internal/filters/authn/oidc"
	"mainstay.dev/mainstay/internal/filters/authz/webhook"
	"mainstay.dev/mainstay/internal/host/fleet"
	"mainstay.dev/mainstay/internal/storage/cache"
	"mainstay.dev/mainstay/internal/storage/encryption"
	"mainstay.dev/mainstay/internal/telemetry"
	"mainstay.dev/mainstay/internal/telemetry/recent"
)

// metrics are the metrics of a host and of its control planes.
type metrics struct {
	registry     *recent.Registry
	slis         *prometheus.Registry   // metrics of /metrics/slis
	filter       telemetry.MetricFilter // applied to both registries when they are served
	requests     *telemetry.Requests
	controlPlane *controlplane.Metrics
	jwt          *oidc.Metrics
	authorizers  *webhook.Metrics
	encryption   *encryption.Metrics
	egress       *selector.Metrics
	cache        *cache.Metrics
	fleet        *fleet.Metrics
	// authenticationReloads and authorizationReloads count the reloads of configuration files.
	authenticationReloads, authorizationReloads *telemetry.Reloads
}

// newMetrics registers the metrics.
func newMetrics(config *Config) (*metrics, error) {
	m := &metrics{registry: recent.NewRegistry(telemetry.NewRegistry(config.ControlPlane.Build(config.Version))), slis: prometheus.NewRegistry()}
	var err error
	m.filter, err = config.Metrics.filter()
	if err != nil {
		return nil, err
	}
	m.requests = telemetry.NewRequests(m.registry)
	m.registry.MustRegister(newFeatures(config.ControlPlane.Gates()))
	hostname := config.Listen.Hostname
	identified := telemetry.WithServerID(m.registry, hostname)
	var errs [9]error
	m.controlPlane, errs[0] = controlplane.NewMetrics(m.registry, hostname)
	m.jwt, errs[1] = oidc.NewMetrics(m.registry, identified)
	m.authorizers, errs[2] = webhook.NewMetrics(m.registry)
	m.authenticationReloads, errs[3] = telemetry.NewReloads(identified, "authentication")
	m.authorizationReloads, errs[4] = telemetry.NewReloads(identified, "authorization")
	m.encryption, errs[5] = encryption.NewMetrics(m.registry, telemetry.ServerID(hostname))
	m.egress, errs[6] = selector.NewMetrics(m.registry)
	m.cache, errs[7] = cache.NewMetrics(m.registry)
	m.fleet, errs[8] = fleet.NewMetrics(m.registry, config.ControlPlanes.series())
	return m, errors.Join(errs[:]...)
}
