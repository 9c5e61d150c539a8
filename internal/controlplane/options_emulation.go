package controlplane

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"mainstay.dev/mainstay/internal/apis/builtin"
	"mainstay.dev/mainstay/internal/feature/emulation"
	"mainstay.dev/mainstay/internal/flags"
)

// oldestCompatible is the oldest minor version that --min-compatibility-version permits if the server
// emulates no older version, as in kube-apiserver.
const oldestCompatible = emulation.Newest - 3

// EmulationOptions select the minor version of Kubernetes whose API is served (KEP-4330).
type EmulationOptions struct {
	// Minor is the emulated minor version, such as 34; 0 emulates none.
	Minor int
	// MinCompatibility is the oldest minor version to which the server can be rolled back, as shown in
	// /version; 0 means the version before Minor.
	MinCompatibility int
	// ForwardCompatible also serves stable versions of resources that are newer than Minor.
	ForwardCompatible bool
	// RuntimeConfigForwardCompatible permits FeatureOptions.RuntimeConfig to enable resources that are
	// newer than Minor.
	RuntimeConfigForwardCompatible bool
}

// AddFlags defines the flags of the options.
func (o *EmulationOptions) AddFlags(fs *pflag.FlagSet) {
	o.AddVersionFlag(fs, "emulated-version")
	flags.ListVar(fs, "min-compatibility-version", "versions", "oldest Kubernetes version to which this server can be rolled back, as shown in /version (default: the version before --emulated-version)", kubeVersion(&o.MinCompatibility))
	fs.BoolVar(&o.ForwardCompatible, "emulation-forward-compatible", false, "also serve stable versions of APIs that are newer than --emulated-version")
	fs.BoolVar(&o.RuntimeConfigForwardCompatible, "runtime-config-emulation-forward-compatible", false, "let --runtime-config enable APIs that are newer than --emulated-version")
}

// AddVersionFlag defines the flag for Minor.
func (o *EmulationOptions) AddVersionFlag(fs *pflag.FlagSet, name string) {
	flags.ListVar(fs, name, "versions", fmt.Sprintf("Kubernetes version of the API, from 1.%d to 1.%d, such as 1.%d: its resources, fields, feature gates, default objects and /version", emulation.Oldest, emulation.Newest, emulation.Oldest), kubeVersion(&o.Minor))
}

// kubeVersion returns a function that sets minor from a list of [COMPONENT=]MAJOR.MINOR. The only component is
// kube, which is the default. A version may have a leading v and a patch version.
func kubeVersion(minor *int) func(list string) error {
	return func(list string) error {
		for item := range strings.SplitSeq(list, ",") {
			component, text, named := strings.Cut(item, "=")
			if !named {
				component, text = "kube", item
			}
			if component != "kube" {
				return fmt.Errorf("there is no component %q, only kube", component)
			}
			parsed, err := ParseMinor(text)
			if err != nil {
				return err
			}
			*minor = parsed
		}
		return nil
	}
}

// ParseMinor returns the minor version of a Kubernetes version such as 1.33, v1.33 or 1.33.4. It
// returns an error for a malformed version.
func ParseMinor(version string) (int, error) {
	parts := strings.Split(strings.TrimPrefix(version, "v"), ".")
	if len(parts) < 2 || len(parts) > 3 {
		return 0, fmt.Errorf("%q is not a version such as kube=1.%d", version, emulation.Newest)
	}
	major, errMajor := strconv.Atoi(parts[0])
	minor, errMinor := strconv.Atoi(parts[1])
	if errMajor != nil || errMinor != nil || major != 1 || minor < 1 {
		return 0, fmt.Errorf("%q is not a version such as kube=1.%d", version, emulation.Newest)
	}
	return minor, nil
}

// minor returns the served minor version.
func (o *EmulationOptions) minor() int {
	if o.Minor == 0 {
		return emulation.Newest
	}
	return o.Minor
}

// minCompatibility returns the oldest compatible minor version.
func (o *EmulationOptions) minCompatibility() int {
	if o.MinCompatibility == 0 {
		return o.minor() - 1
	}
	return o.MinCompatibility
}

func (o *EmulationOptions) check() error {
	if err := emulation.Check(o.Minor); err != nil {
		return err
	}
	if oldest := min(oldestCompatible, o.minor()-1); o.minCompatibility() < oldest || o.minCompatibility() > o.minor() {
		return fmt.Errorf("--min-compatibility-version is 1.%d; it must be a version from 1.%d to 1.%d", o.MinCompatibility, oldest, o.minor())
	}
	return nil
}

// newer specifies which resources are served even though the emulated version does not have them.
func (o *EmulationOptions) newer() builtin.NewerResources {
	return builtin.NewerResources{Stable: o.ForwardCompatible, Explicit: o.RuntimeConfigForwardCompatible}
}
