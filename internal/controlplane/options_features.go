package controlplane

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"mainstay.dev/mainstay/internal/apis/builtin"
	"mainstay.dev/mainstay/internal/apis/builtin/all"
	"mainstay.dev/mainstay/internal/feature"
	"mainstay.dev/mainstay/internal/flags"
)

// FeatureOptions enable and disable features and built-in APIs.
type FeatureOptions struct {
	// Emulation selects an older minor version of the API; its zero value serves the newest version.
	Emulation EmulationOptions
	// Gates contains the feature gates that are set. Other feature gates have the default values of the served
	// minor version.
	Gates feature.Set
	// RuntimeConfig selects the served versions and resources of built-in APIs, see builtin.NewEnablement;
	// nil selects the default versions and resources.
	RuntimeConfig map[string]string
}

// AddFlags defines the flags of the options. Repeated flags add values. check reports unknown names,
// because a later flag may complete an earlier one.
func (o *FeatureOptions) AddFlags(fs *pflag.FlagSet) {
	o.Emulation.AddFlags(fs)
	flags.ListVar(fs, "runtime-config", "apis", "built-in APIs to enable or disable, as api/all, api/ga, api/beta, api/alpha, GROUP/VERSION or GROUP/VERSION/RESOURCE, each with =true|false, comma-separated; may be repeated", o.setRuntimeConfig)
	flags.ListVar(fs, "feature-gates", "gates", "feature gates as NAME=true|false, comma-separated; may be repeated. \"mainstay features\" lists them", o.setGates)
}

func (o *FeatureOptions) setGates(value string) error {
	if o.Gates == nil {
		o.Gates = feature.Set{}
	}
	return o.Gates.Parse(value)
}

func (o *FeatureOptions) setRuntimeConfig(value string) error {
	if o.RuntimeConfig == nil {
		o.RuntimeConfig = map[string]string{}
	}
	for item := range strings.SplitSeq(value, ",") {
		if item == "" {
			continue
		}
		key, enabled, _ := strings.Cut(item, "=")
		o.RuntimeConfig[strings.TrimSpace(key)] = strings.TrimSpace(enabled)
	}
	return nil
}

func (o *FeatureOptions) check() error {
	if err := o.Emulation.check(); err != nil {
		return err
	}
	var errs []error
	if _, err := feature.DefaultsOf(o.Emulation.minor()).With(o.Gates); err != nil {
		errs = append(errs, fmt.Errorf("--feature-gates: %w", err))
	}
	if _, err := o.enablement(); err != nil {
		errs = append(errs, fmt.Errorf("--runtime-config: %w", err))
	}
	return errors.Join(errs...)
}

// enabled returns the enabled feature gates. The options must have been checked.
func (o *FeatureOptions) enabled() feature.Gates {
	gates, _ := feature.DefaultsOf(o.Emulation.minor()).With(o.Gates)
	return gates
}

// enablement returns the served resources.
func (o *FeatureOptions) enablement() (builtin.Enablement, error) {
	if len(o.RuntimeConfig) == 0 {
		return builtin.Enablement{}, nil
	}
	return builtin.NewEnablement(o.RuntimeConfig, all.Versions())
}
