package host

import (
	"errors"
	"fmt"
	"log/slog"

	"mainstay.dev/mainstay/internal/controlplane"
	"mainstay.dev/mainstay/internal/filters/faults"
	"mainstay.dev/mainstay/internal/simulation"
)

// NoLimit is the value of a maximum that disables it; 0 selects the default.
const NoLimit = controlplane.NoLimit

// Config configures a host. The zero value serves on 127.0.0.1:6443 from ./mainstay-data. Each group of
// options is declared in the same file as its flags.
type Config struct {
	// ControlPlane configures the control plane that is served.
	ControlPlane controlplane.Options

	// ControlPlanes configures the control planes that ControlPlane objects declare.
	ControlPlanes ControlPlanesConfig

	Storage        StorageConfig
	Limits         LimitsConfig
	Listen         ListenConfig
	TLS            TLSConfig
	Authentication AuthenticationConfig
	Authorization  AuthorizationConfig
	Signing        SigningConfig
	Aggregation    AggregationConfig
	Kubelet        KubeletConfig
	Egress         EgressConfig
	Shutdown       ShutdownConfig
	Debug          DebugConfig
	Console        ConsoleConfig
	Metrics        MetricsConfig
	Tracing        TracingConfig
	Testing        TestingConfig

	// Version is the version of the program; "" is reported as unknown.
	Version string
	// Logger receives messages for operators; nil discards them.
	Logger *slog.Logger
	// OnServing is called once, when the server is ready. It must not block.
	OnServing func(Serving)
}

// TestingConfig configures test servers.
type TestingConfig struct {
	// Faults injects faults into requests. Clients configure the faults at faults.Path. If Faults is not
	// nil, it replaces ControlPlane.Filter; nil injects no faults.
	Faults *faults.Set
	// Simulation controls the clock and the random source; nil selects the real clock and random source.
	Simulation *simulation.Simulation
}

// Serving describes how to reach a server that is ready.
type Serving struct {
	URL string
	// Kubeconfig is the absolute path of the administrator's kubeconfig; "" if the server stores its
	// keys in memory.
	Kubeconfig string
}

// withDefaults returns a copy of the config in which zero fields have their default values. It reads
// the configuration of admission plugins.
func (c Config) withDefaults() (Config, error) {
	if err := c.ControlPlane.Admission.LoadConfig(); err != nil {
		return c, err
	}
	c.Authorization.modesSet = len(c.ControlPlane.Authorization.Modes) > 0
	c.ControlPlane = c.ControlPlane.WithDefaults()
	c.Listen.setDefaults()
	c.Limits.setDefaults()
	c.Authentication.setDefaults()
	c.Authorization.setDefaults()
	setDefault(&c.Version, "unknown")
	if c.Testing.Faults != nil && c.Testing.Simulation == nil {
		c.Testing.Simulation = simulation.New(simulation.Config{})
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c, c.Storage.setDefaults()
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// check returns all errors of a config that withDefaults has returned, joined. The messages contain the
// names of the flags.
func (c Config) check() error {
	return errors.Join(
		c.Listen.check(), c.TLS.check(), c.Aggregation.check(c.ControlPlane.Gates()), c.Kubelet.check(), c.Shutdown.check(),
		c.Limits.check(), c.Storage.check(c.ControlPlane.Gates()), c.ControlPlane.Check(), c.Signing.check(), c.Authentication.check(),
		c.Authorization.check(c.ControlPlane.Authorization.Modes), c.ControlPlanes.check(),
	)
}

// checkTogether returns an error if only one of two flags is set.
func checkTogether(flag, value, otherFlag, otherValue string) error {
	if (value == "") != (otherValue == "") {
		return fmt.Errorf("--%s and --%s must be given together", flag, otherFlag)
	}
	return nil
}
