package controlplane

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"mainstay.dev/mainstay/internal/admission/config"
	"mainstay.dev/mainstay/internal/admission/plugin"
	"mainstay.dev/mainstay/internal/flags"
)

// AdmissionOptions configure admission.
type AdmissionOptions struct {
	// EnablePlugins contains the plugins to enable in addition to the default plugins. DisablePlugins contains
	// the plugins to disable.
	EnablePlugins, DisablePlugins []string
	// OnlyPlugins, if not empty, are the only enabled plugins; EnablePlugins and DisablePlugins must be
	// empty then.
	OnlyPlugins []string
	// ConfigFile is the path of an AdmissionConfiguration, which LoadConfig reads into Config; "" means no
	// file.
	ConfigFile string
	// Config is the configuration of plugins; nil selects their defaults.
	Config *config.Config
	// DefaultNotReadyTolerationSeconds and DefaultUnreachableTolerationSeconds specify for how long a pod
	// tolerates by default that its node is not ready or unreachable, in seconds; nil selects 300.
	DefaultNotReadyTolerationSeconds, DefaultUnreachableTolerationSeconds *int64
	// DenyPrivileged rejects pods with privileged containers. Unlike in kube-apiserver, such pods are allowed
	// by default.
	DenyPrivileged bool
}

// AddFlags defines the flags of the options.
func (o *AdmissionOptions) AddFlags(fs *pflag.FlagSet) {
	fs.StringSliceVar(&o.EnablePlugins, "enable-admission-plugins", nil, "additional admission plugins, comma-separated; their order does not matter: "+strings.Join(AdmissionPlugins(), ", "))
	fs.StringSliceVar(&o.DisablePlugins, "disable-admission-plugins", nil, "admission plugins to disable, comma-separated")
	fs.StringSliceVar(&o.OnlyPlugins, "admission-control", nil, "the only admission plugins to enable, comma-separated; their order does not matter. Deprecated: use --enable-admission-plugins and --disable-admission-plugins, which cannot be combined with it")
	fs.StringVar(&o.ConfigFile, "admission-control-config-file", "", "file with an AdmissionConfiguration of apiserver.config.k8s.io/v1, which contains the configuration of admission plugins or the names of files that contain it")
	flags.OptionalSecondsVar(fs, &o.DefaultNotReadyTolerationSeconds, "default-not-ready-toleration-seconds", 300, "default toleration of pods for nodes that are not ready, in seconds")
	flags.OptionalSecondsVar(fs, &o.DefaultUnreachableTolerationSeconds, "default-unreachable-toleration-seconds", 300, "default toleration of pods for unreachable nodes, in seconds")
	flags.EnabledVar(fs, &o.DenyPrivileged, "allow-privileged", "allow privileged containers in pods; unlike in kube-apiserver, this is the default")
}

// LoadConfig reads ConfigFile into Config. It does nothing if ConfigFile is "". It returns an error if
// the file cannot be read or is invalid.
func (o *AdmissionOptions) LoadConfig() error {
	if o.ConfigFile == "" {
		return nil
	}
	read, err := config.Read(o.ConfigFile)
	if err != nil {
		return fmt.Errorf("--admission-control-config-file: %w", err)
	}
	o.Config = read
	return nil
}

func (o *AdmissionOptions) setDefaults() {
	if o.Config == nil {
		o.Config = &config.Config{}
	}
}

// check returns errors for unknown plugins, for plugins that are both enabled and disabled, and for enabled
// plugins whose required configuration is missing.
func (o *AdmissionOptions) check() error {
	known := make(map[string]plugin.Registration)
	for _, r := range plugin.All() {
		known[r.Name] = r
	}
	var errs []error
	enabled, flag := o.EnablePlugins, "enable-admission-plugins"
	if len(o.OnlyPlugins) > 0 {
		if len(o.EnablePlugins)+len(o.DisablePlugins) > 0 {
			errs = append(errs, errors.New("admission-control and enable-admission-plugins/disable-admission-plugins flags are mutually exclusive"))
		}
		enabled, flag = o.OnlyPlugins, "admission-control"
	}
	for _, name := range enabled {
		r, exists := known[name]
		switch {
		case !exists:
			errs = append(errs, fmt.Errorf("--%s: there is no admission plugin %q", flag, name))
		case r.RequiresConfig && !slices.Contains(o.Config.Configured(), name):
			errs = append(errs, fmt.Errorf("--%s=%s needs its configuration, by --admission-control-config-file", flag, name))
		case slices.Contains(o.DisablePlugins, name):
			errs = append(errs, fmt.Errorf("--enable-admission-plugins and --disable-admission-plugins both name %s", name))
		}
	}
	for _, list := range []struct {
		flag  string
		names []string
	}{
		{"disable-admission-plugins", o.DisablePlugins}, {"admission-control-config-file", o.Config.Configured()},
	} {
		for _, name := range list.names {
			if _, exists := known[name]; !exists {
				errs = append(errs, fmt.Errorf("--%s: there is no admission plugin %q", list.flag, name))
			}
		}
	}
	return errors.Join(errs...)
}
