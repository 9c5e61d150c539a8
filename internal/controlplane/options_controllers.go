package controlplane

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"mainstay.dev/mainstay/internal/controllers/garbage"
)

// Defaults of ControllerOptions, as in kube-controller-manager.
const (
	DefaultClusterSigningDuration   = 365 * 24 * time.Hour
	DefaultLegacyTokenCleanUpPeriod = 365 * 24 * time.Hour
)

// noControllers in ControllerOptions.Names disables all controllers that are not named.
const noControllers = "-*"

// ControllerOptions configure the controllers in the server.
type ControllerOptions struct {
	// Names selects the controllers, with the syntax of kube-controller-manager: NAME enables a controller,
	// -NAME disables a controller, and * enables all controllers except OptionalControllers. Additionally, -*
	// disables all controllers that are not named. An empty list means *.
	Names []string
	// KeepUnknownOwners keeps objects whose owners never existed, such as objects that tests create. An object
	// is still deleted if its owner existed and was deleted.
	KeepUnknownOwners bool
	// NamespaceGrace is the delay before the content of a terminating namespace is deleted.
	NamespaceGrace time.Duration
	// ClusterSigningDuration is the maximum lifetime of signed certificates; 0 selects 8760h.
	ClusterSigningDuration time.Duration
	// LegacyTokenCleanUpPeriod is the period after which an unused token that was generated in a Secret becomes
	// invalid, and the period after which an invalid token is deleted; 0 selects 8760h.
	LegacyTokenCleanUpPeriod time.Duration

	disableGarbageCollector bool // copy of StorageOptions.DisableGarbageCollector
}

// AddFlags defines the flags of the options.
func (o *ControllerOptions) AddFlags(fs *pflag.FlagSet) {
	fs.StringSliceVar(&o.Names, "controllers", nil, "controllers to run in the server, comma-separated: NAME enables one, -NAME disables one, * enables all except "+strings.Join(OptionalControllers(), ", ")+", -* disables all that are not named (default *); while a kube-controller-manager runs, only the named ones run; available: "+strings.Join(Controllers(), ", "))
	fs.DurationVar(&o.ClusterSigningDuration, "cluster-signing-duration", DefaultClusterSigningDuration, "maximum lifetime of signed certificates; certificate signing requests may specify a shorter one")
	fs.DurationVar(&o.LegacyTokenCleanUpPeriod, "legacy-service-account-token-clean-up-period", DefaultLegacyTokenCleanUpPeriod, "how long a token that was generated in a secret may be unused before it becomes invalid, and how long an invalid token is kept before it is deleted")
}

func (o *ControllerOptions) setDefaults() {
	setDefault(&o.ClusterSigningDuration, DefaultClusterSigningDuration)
	setDefault(&o.LegacyTokenCleanUpPeriod, DefaultLegacyTokenCleanUpPeriod)
}

func (o *ControllerOptions) check() error {
	errs := []error{
		checkNotNegative("cluster-signing-duration", o.ClusterSigningDuration),
		checkNotNegative("legacy-service-account-token-clean-up-period", o.LegacyTokenCleanUpPeriod),
	}
	for _, name := range o.Names {
		if name != "*" && name != noControllers && !slices.Contains(Controllers(), strings.TrimPrefix(name, "-")) {
			errs = append(errs, fmt.Errorf("--controllers: there is no controller %q in this server, only %s", name, strings.Join(Controllers(), ", ")))
		}
	}
	return errors.Join(errs...)
}

// enabled reports whether a controller is enabled.
func (o *ControllerOptions) enabled(name string) bool {
	if o.disableGarbageCollector && name == garbage.Registration().Name {
		return false
	}
	all := len(o.Names) == 0 || slices.Contains(o.Names, "*") && !slices.Contains(o.Names, noControllers)
	return o.named(name) || all && !slices.Contains(OptionalControllers(), name) && !slices.Contains(o.Names, "-"+name)
}

// named reports whether a controller is enabled by name. If it is, it also runs while a
// kube-controller-manager, which contains the same controller, is running.
func (o *ControllerOptions) named(name string) bool { return slices.Contains(o.Names, name) }
