package host

import (
	"errors"
	"fmt"
	"log/slog"
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
	// WatchGracePeriod is the time over which watches are ended, one after the other; 0 ends all watches
	// immediately.
	WatchGracePeriod time.Duration
}

// AddFlags defines the flags of the config.
func (c *ShutdownConfig) AddFlags(fs *pflag.FlagSet) {
	fs.DurationVar(&c.Delay, "shutdown-delay-duration", 0, "how long to continue serving after a stop signal, while /readyz fails")
	fs.BoolVar(&c.SendRetryAfter, "shutdown-send-retry-after", false, "during shutdown, respond to new requests with 429 and Retry-After instead of closing the port")
	fs.DurationVar(&c.WatchGracePeriod, "shutdown-watch-termination-grace-period", 0, "during shutdown, end watches one after the other within this time, at least 200 per second, so that clients reconnect to other servers at different times; 0 ends all at once")
}

func (c *ShutdownConfig) check() error {
	var errs []error
	if c.Delay < 0 {
		errs = append(errs, fmt.Errorf("--shutdown-delay-duration is %s; it cannot be negative", c.Delay))
	}
	if c.WatchGracePeriod < 0 {
		errs = append(errs, fmt.Errorf("--shutdown-watch-termination-grace-period is %s; it cannot be negative", c.WatchGracePeriod))
	}
	return errors.Join(errs...)
}

// DebugConfig configures the debugging endpoints, /logs and /flagz.
type DebugConfig struct {
	// DisableProfiling disables /debug/pprof and /debug/flags.
	DisableProfiling bool
	// LogLevel is the level of the logger, which clients can change at /debug/flags/v; nil disables
	// this path.
	LogLevel *slog.LevelVar
	// SocketPath is the path of a Unix socket that serves the paths below /debug without authentication.
	// Only the user of the process can connect. "" disables the socket.
	SocketPath string
	// ServeLogs serves the files below /var/log at /logs.
	ServeLogs bool
	// Flags are the flags of the process and their values, for /flagz.
	Flags map[string]string
}

// AddFlags defines the flags of the config.
func (c *DebugConfig) AddFlags(fs *pflag.FlagSet) {
	flags.EnabledVar(fs, &c.DisableProfiling, "profiling", "serve /debug/pprof, and /debug/flags/v, which changes the log verbosity")
	fs.StringVar(&c.SocketPath, "debug-socket-path", "", "path of a Unix socket that serves /debug/pprof and /debug/flags/v without authentication; only the user of the server can connect")
	fs.BoolVar(&c.ServeLogs, "enable-logs-handler", false, "serve the files below /var/log at /logs; deprecated in Kubernetes")
}

// ConsoleConfig configures the web console.
type ConsoleConfig struct {
	// Disabled disables the paths below /console/.
	Disabled bool
}

// AddFlags defines the flags of the config.
func (c *ConsoleConfig) AddFlags(fs *pflag.FlagSet) {
	flags.EnabledVar(fs, &c.Disabled, "console", "serve the web console at /console/; it reads the API with the credentials of its user")
}

// EgressConfig configures connections to other servers.
type EgressConfig struct {
	// SelectorConfigFile is the file of an EgressSelectorConfiguration; "" selects direct connections.
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
