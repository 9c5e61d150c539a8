package main

import (
	_ "embed"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"mainstay.dev/mainstay/internal/host"
	"mainstay.dev/mainstay/internal/telemetry"
)

//go:embed upstream-flags.tsv
var upstreamFlags string

// serveFlags contains the flags of serve and their values.
type serveFlags struct {
	config   host.Config
	log      telemetry.LogConfig
	version  bool
	sections []section
	tests    testFlags
	all      *pflag.FlagSet
}

// section is a group of flags in the help.
type section struct {
	title string
	flags *pflag.FlagSet
}

// newServeFlags returns the flags with their defaults, in the sections of the help. Each flag is
// defined in the AddFlags method of its configuration group.
func newServeFlags() *serveFlags {
	f := &serveFlags{}
	c, api := &f.config, &f.config.ControlPlane
	f.section("Storage", c.Storage.AddFlags, api.Storage.AddFlags, c.Limits.AddFlags)
	f.section("Serving", c.Listen.AddFlags, api.Services.AddFlags)
	f.section("TLS", c.TLS.AddFlags)
	f.section("Authentication and authorization", c.Authentication.AddFlags, api.Authentication.AddFlags, api.ServiceAccounts.AddFlags,
		api.Authorization.AddFlags, c.Authorization.AddFlags)
	f.section("Admission and controllers", api.Admission.AddFlags, api.Controllers.AddFlags, c.Signing.AddFlags)
	f.section("Requests", api.Requests.AddFlags)
	f.section("Audit", api.Audit.AddFlags)
	f.section("Stopping", c.Shutdown.AddFlags)
	f.section("Aggregation", c.Aggregation.AddFlags, api.Aggregation.AddFlags, api.Peers.AddFlags)
	f.section("Kubelets", c.Kubelet.AddFlags, api.Kubelet.AddFlags)
	f.section("Connections to others", c.Egress.AddFlags)
	f.section("Features", c.Debug.AddFlags, api.Features.AddFlags)
	f.section("Servers for tests", f.tests.addFlags)
	f.section("Logs", f.addLogFlags)
	return f
}

// section adds a section with the flags of the given groups.
func (f *serveFlags) section(title string, groups ...func(*pflag.FlagSet)) {
	flags := pflag.NewFlagSet(title, pflag.ContinueOnError)
	flags.SortFlags = false
	for _, addFlags := range groups {
		addFlags(flags)
	}
	f.sections = append(f.sections, section{title, flags})
}

func (f *serveFlags) addLogFlags(flags *pflag.FlagSet) {
	flags.StringVar(&f.log.Format, "logging-format", telemetry.FormatText, "text or json")
	flags.IntVarP(&f.log.Verbosity, "v", "v", 0, "log verbosity: 3 logs every request; 6 and above is for developers")
	flags.BoolVar(&f.version, "version", false, "print the version and exit")
}

// values returns the values of all supported flags, by name.
func (f *serveFlags) values() map[string]string {
	values := map[string]string{}
	f.all.VisitAll(func(flag *pflag.Flag) {
		if _, unsupported := flag.Value.(*unsupportedValue); !unsupported {
			values[flag.Name] = flag.Value.String()
		}
	})
	return values
}

// unsupportedValue is the value of a flag of kube-apiserver that is not supported. It accepts any
// text, so that serveFlags.check can report all such flags at once.
type unsupportedValue struct{ kind string }

func (v *unsupportedValue) Set(string) error { return nil }
func (v *unsupportedValue) String() string   { return "" }
func (v *unsupportedValue) Type() string     { return v.kind }

// addTo adds all flags to a command. It also adds hidden flags for the unsupported flags of
// kube-apiserver.
func (f *serveFlags) addTo(flags *pflag.FlagSet) {
	f.all = flags
	flags.SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		return pflag.NormalizedName(strings.ReplaceAll(name, "_", "-"))
	})
	for _, section := range f.sections {
		flags.AddFlagSet(section.flags)
	}
	for _, upstream := range tableRows(upstreamFlags) {
		if name := upstream[0]; flags.Lookup(name) == nil {
			flag := flags.VarPF(&unsupportedValue{kind: upstream[1]}, name, "", "not supported yet")
			flag.Hidden = true
			if upstream[1] == "bool" {
				flag.NoOptDefVal = "true"
			}
		}
	}
}

// check applies the flags of test servers. It returns an error for each unsupported flag that is
// set.
func (f *serveFlags) check() error {
	var errs []error
	f.all.Visit(func(flag *pflag.Flag) {
		if _, ok := flag.Value.(*unsupportedValue); ok {
			errs = append(errs, fmt.Errorf("--%s is not supported yet", flag.Name))
		}
	})
	return errors.Join(append(errs, f.tests.applyTo(f.all, &f.config.Testing))...)
}

// usage prints the flags by section. It is a cobra usage function.
func (f *serveFlags) usage(c *cobra.Command) error {
	out := c.OutOrStderr()
	fmt.Fprintf(out, "Usage:\n  %s\n\nExamples:\n%s\n", c.UseLine(), c.Example)
	for _, section := range f.sections {
		fmt.Fprintf(out, "\n%s:\n%s", section.title, section.flags.FlagUsagesWrapped(110))
	}
	return nil
}

// tableRows parses a table of tab-separated values, in which lines with # are comments.
func tableRows(table string) [][]string {
	var rows [][]string
	for line := range strings.Lines(table) {
		if line = strings.TrimRight(line, "\r\n"); line != "" && line[0] != '#' {
			rows = append(rows, strings.Split(line, "\t"))
		}
	}
	return rows
}
