package host

import (
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"mainstay.dev/mainstay/internal/egress/selector"
	"mainstay.dev/mainstay/internal/flags"
)

// ShutdownConfig configures the shutdown.
type ShutdownConfig struct {
	// Delay is the time for which the server continues to serve while /readyz fails.
	Delay time.Duration
	// SendRetryAfter rejects new requests with 429 and Retry-After during the shutdown, instead of
	// closing the port.
	SendRetryAfter bool
}

// AddFlags defines the flags of the config.
func (c *ShutdownConfig) AddFlags(fs *pflag.FlagSet) {
	fs.DurationVar(&c.Delay, "shutdown-delay-duration", 0, "how long to continue serving after a stop signal, while /readyz fails")
	fs.BoolVar(&c.SendRetryAfter, "shutdown-send-retry-after", false, "during shutdown, respond to new requests with 429 and Retry-After instead of closing the port")
}

func (c *ShutdownConfig) check() error {
	if c.Delay < 0 {
		return fmt.Errorf("--shutdown-delay-duration is %s; it cannot be negative", c.Delay)
	}
	return nil
}

// DebugConfig configures pages about the process.
type DebugConfig struct {
	// DisableProfiling disables /debug/pprof.
	DisableProfiling bool
	// Flags are the flags of the process and their values, for /flagz.
	Flags map[string]string
}

// AddFlags defines the flags of the config.
func (c *DebugConfig) AddFlags(fs *pflag.FlagSet) {
	flags.EnabledVar(fs, &c.DisableProfiling, "profiling", "serve /debug/pprof")
}

// EgressConfig configures connections to other servers.
type EgressConfig struct {
	// SelectorConfigFile is an EgressSelectorConfiguration; "" connects directly.
	SelectorConfigFile string
}

// AddFlags defines the flags of the config.
func (c *EgressConfig) AddFlags(fs *pflag.FlagSet) {
	fs.StringVar(&c.SelectorConfigFile, "egress-selector-config-file", "", "EgressSelectorConfiguration of apiserver.k8s.io/v1beta1: proxies for connections to nodes, pods and services (cluster), to webhooks with URLs (controlplane) and to etcd (default: direct connections)")
}

// open reads the configuration. The caller must close the selector.
func (c *EgressConfig) open(metrics *selector.Metrics) (*selector.Selector, error) {
	if c.SelectorConfigFile == "" {
		return &selector.Selector{}, nil
	}
	s, err := selector.Open(c.SelectorConfigFile, metrics)
	if err != nil {
		return nil, fmt.Errorf("--egress-selector-config-file: %w", err)
	}
	return s, nil
}
