package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	flagtypes "mainstay.dev/mainstay/internal/flags"
	"mainstay.dev/mainstay/internal/host"
	"mainstay.dev/mainstay/internal/telemetry"
)

// serveFlags contains the flags of serve and their values.
type serveFlags struct {
	config host.Config
	log    telemetry.LogConfig
	// splitText and splitJSON send all log lines of their format, except errors, to the standard output.
	splitText, splitJSON bool
	// contentionProfiling enables recording of blocking events for /debug/pprof/block.
	contentionProfiling bool
	version             bool
	sections            []section
	tests               testFlags
	all                 *pflag.FlagSet
}

// section is a group of flags in the help.
type section struct {
	title string
	flags *pflag.FlagSet
}

// newServeFlags returns the flags with their default values, grouped into the sections of the help. Each flag
// is defined in the AddFlags method of the configuration to which it belongs.
func newServeFlags() *serveFlags {
	f := &serveFlags{}
	c, api := &f.config, &f.config.ControlPlane
	f.section("Storage", c.Storage.AddFlags, api.Storage.AddFlags, c.Limits.AddFlags)
	f.section("Control planes", c.ControlPlanes.AddFlags)
	f.section("Serving", c.Listen.AddFlags, api.Services.AddFlags)
	f.section("TLS", c.TLS.AddFlags)
	f.section("Authentication and authorization", c.Authentication.AddFlags, api.Authentication.AddFlags, api.ServiceAccounts.AddFlags,
		api.Authorization.AddFlags, c.Authorization.AddFlags)
	f.section("Admission and controllers", api.Admission.AddFlags, api.Controllers.AddFlags, c.Signing.AddFlags)
	f.section("Requests", api.Requests.AddFlags)
	f.section("Audit", api.Audit.AddFlags)
	f.section("Shutdown", c.Shutdown.AddFlags)
	f.section("Aggregation", c.Aggregation.AddFlags, api.Aggregation.AddFlags, api.Peers.AddFlags)
	f.section("Kubelets", c.Kubelet.AddFlags, api.Kubelet.AddFlags)
	f.section("Outgoing connections", c.Egress.AddFlags)
	f.section("Features", c.Debug.AddFlags, c.Console.AddFlags, f.addProfilingFlag, api.Health.AddFlags, c.Metrics.AddFlags, c.Tracing.AddFlags, api.Features.AddFlags)
	f.section("Servers for tests", f.tests.addFlags)
	f.section("Logs", f.addLogFlags)
	return f
}

// section adds a section that contains the flags of the given AddFlags functions.
func (f *serveFlags) section(title string, groups ...func(*pflag.FlagSet)) {
	flags := pflag.NewFlagSet(title, pflag.ContinueOnError)
	flags.SortFlags = false
	for _, addFlags := range groups {
		addFlags(flags)
	}
	f.sections = append(f.sections, section{title, flags})
}

func (f *serveFlags) addProfilingFlag(flags *pflag.FlagSet) {
	flags.BoolVar(&f.contentionProfiling, "contention-profiling", false, "record blocking events for /debug/pprof/block; requires --profiling")
}

func (f *serveFlags) addLogFlags(flags *pflag.FlagSet) {
	flags.StringVar(&f.log.Format, "logging-format", telemetry.FormatText, "text or json")
	flags.IntVarP(&f.log.Verbosity, "v", "v", 0, "log verbosity: 3 logs every request; 6 and above is for developers")
	flagtypes.Var(flags, "vmodule", "pattern=N,...", "", "log verbosity of single source files, comma-separated, such as store*=4", func(text string) (err error) {
		f.log.Modules, err = telemetry.ParseModuleVerbosity(text)
		return err
	})
	flags.BoolVar(&f.splitText, "log-text-split-stream", false, "with --logging-format=text: write errors to the standard error and other lines to the standard output")
	flags.BoolVar(&f.splitJSON, "log-json-split-stream", false, "with --logging-format=json: write errors to the standard error and other lines to the standard output")
	flags.BoolVar(&f.version, "version", false, "print the version and exit")
}

// values returns the values of all flags by name, except for flags that have no effect.
func (f *serveFlags) values() map[string]string {
	values := map[string]string{}
	f.all.VisitAll(func(flag *pflag.Flag) {
		if _, ignored := flag.Value.(*ignoredValue); !ignored {
			values[flag.Name] = flag.Value.String()
		}
	})
	return values
}

// splitsLog reports whether log lines other than errors are written to the standard output.
func (f *serveFlags) splitsLog() bool {
	if f.log.Format == telemetry.FormatJSON {
		return f.splitJSON
	}
	return f.splitText
}

// addTo adds all flags to flags, including hidden ones for the flags of kube-apiserver that have no effect.
func (f *serveFlags) addTo(flags *pflag.FlagSet) {
	f.all = flags
	flags.SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		return pflag.NormalizedName(strings.ReplaceAll(name, "_", "-"))
	})
	for _, section := range f.sections {
		flags.AddFlagSet(section.flags)
	}
	addIgnoredFlags(flags)
}

// check applies the flags for test servers, and returns an error if flags that depend on each other are
// inconsistent.
func (f *serveFlags) check() error {
	return errors.Join(f.tests.applyTo(f.all, &f.config.Testing), f.checkLeadership())
}

// usage prints the flags by section. It has the signature of a cobra usage function.
func (f *serveFlags) usage(c *cobra.Command) error {
	out := c.OutOrStderr()
	fmt.Fprintf(out, "Usage:\n  %s\n\nExamples:\n%s\n", c.UseLine(), c.Example)
	for _, section := range f.sections {
		fmt.Fprintf(out, "\n%s:\n%s", section.title, section.flags.FlagUsagesWrapped(110))
	}
	return nil
}
