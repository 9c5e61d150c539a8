package host

import (
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"mainstay.dev/mainstay/internal/host/fleet"
)

// ControlPlanesConfig configures the control planes that objects of controlplanes.mainstay.dev declare.
type ControlPlanesConfig struct {
	// Idle is the time without requests and watches after which such a control plane is closed; 0
	// selects fleet.DefaultIdle.
	Idle time.Duration
	// Series is the maximum number of control planes that have their own metrics. The control planes with
	// the most requests are selected. nil selects fleet.DefaultSeries.
	Series *int
}

// AddFlags defines the flags of the config.
func (c *ControlPlanesConfig) AddFlags(fs *pflag.FlagSet) {
	fs.DurationVar(&c.Idle, "control-plane-idle-timeout", fleet.DefaultIdle, "time without requests and watches after which a control plane of a ControlPlane object is closed; its next request opens it")
	c.Series = fs.Int("control-plane-metrics", fleet.DefaultSeries, "maximum number of control planes of ControlPlane objects that have their own series in /metrics: those with the most requests; 0 disables these series")
}

func (c *ControlPlanesConfig) series() int {
	if c.Series == nil {
		return fleet.DefaultSeries
	}
	return *c.Series
}

func (c *ControlPlanesConfig) check() error {
	if c.Idle < 0 {
		return fmt.Errorf("--control-plane-idle-timeout is %s; it cannot be negative", c.Idle)
	}
	if n := c.series(); n < 0 {
		return fmt.Errorf("--control-plane-metrics is %d; it cannot be negative", n)
	}
	return nil
}
