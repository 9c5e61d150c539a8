package controlplane

import (
	"time"

	"github.com/spf13/pflag"
)

// HealthOptions configure the health checks.
type HealthOptions struct {
	// LivezGracePeriod is the time after the start of the control plane during which /livez ignores
	// post-start hooks that are not finished.
	LivezGracePeriod time.Duration
}

// AddFlags defines the flags of the options.
func (o *HealthOptions) AddFlags(fs *pflag.FlagSet) {
	fs.DurationVar(&o.LivezGracePeriod, "livez-grace-period", 0, "time after the start in which /livez ignores post-start hooks that are not finished")
}

func (o *HealthOptions) check() error {
	return checkNotNegative("livez-grace-period", o.LivezGracePeriod)
}
