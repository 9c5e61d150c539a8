package controlplane

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strconv"

	"k8s.io/apimachinery/pkg/version"

	"mainstay.dev/mainstay/internal/feature/emulation"
	"mainstay.dev/mainstay/internal/telemetry"
)

const kubernetesMajor = "1"

// KubernetesVersion returns the newest Kubernetes version whose API is supported, with the prefix "v".
func KubernetesVersion() string { return versionOf(emulation.Newest) }

// versionOf returns the Kubernetes version with the given minor version, with the prefix "v".
func versionOf(minor int) string { return fmt.Sprintf("v%s.%d.0", kubernetesMajor, minor) }

// ServedVersion returns the Kubernetes version of the served API, with the prefix "v". This is the emulated
// version if a version is emulated.
func (o Options) ServedVersion() string { return versionOf(o.Features.Emulation.minor()) }

// Values of /version for a binary that was built outside of a git tree, as in the builds of Kubernetes.
const (
	unknownTree = "archive"
	unknownDate = "1970-01-01T00:00:00Z"
)

// Build returns the build information of this binary with the Kubernetes version of the served API. own
// is the version of Mainstay; it becomes the build metadata of GitVersion, because clients parse
// GitVersion as a semantic version.
func (o Options) Build(own string) telemetry.Build {
	b := telemetry.Build{
		Major: kubernetesMajor, Minor: strconv.Itoa(o.Features.Emulation.minor()),
		GitVersion: o.ServedVersion() + "+mainstay-" + own, GitTreeState: unknownTree, BuildDate: unknownDate,
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	for _, setting := range info.Settings {
		switch setting.Key {
		case "vcs.revision":
			b.GitCommit = setting.Value
		case "vcs.time":
			b.BuildDate = setting.Value
		case "vcs.modified":
			b.GitTreeState = "clean"
			if setting.Value == "true" {
				b.GitTreeState = "dirty"
			}
		}
	}
	return b
}

func (o Options) versionInfo(own string) version.Info {
	b := o.Build(own)
	return version.Info{
		Major: b.Major, Minor: b.Minor,
		EmulationMajor: b.Major, EmulationMinor: b.Minor,
		MinCompatibilityMajor: b.Major, MinCompatibilityMinor: strconv.Itoa(o.Features.Emulation.minCompatibility()),
		GitVersion: b.GitVersion, GitCommit: b.GitCommit, GitTreeState: b.GitTreeState, BuildDate: b.BuildDate,
		GoVersion: runtime.Version(), Compiler: runtime.Compiler, Platform: runtime.GOOS + "/" + runtime.GOARCH,
	}
}
