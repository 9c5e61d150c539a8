package controlplane

import (
	"runtime"
	"runtime/debug"

	"k8s.io/apimachinery/pkg/version"

	"mainstay.dev/mainstay/internal/telemetry"
)

// The Kubernetes version of the served API, and the minimum compatibility version.
const (
	kubernetesMajor    = "1"
	kubernetesMinor    = "37"
	compatibilityMinor = "36"
)

// KubernetesVersion is the version as people write it.
const KubernetesVersion = "v" + kubernetesMajor + "." + kubernetesMinor + ".0"

// Values of /version for a binary built outside of a git tree, as in Kubernetes'
// own builds.
const (
	unknownTree = "archive"
	unknownDate = "1970-01-01T00:00:00Z"
)

// Build returns the build info of this binary. Clients parse GitVersion as a
// semantic version, so own, our version, is its build metadata.
func Build(own string) telemetry.Build {
	b := telemetry.Build{
		Major: kubernetesMajor, Minor: kubernetesMinor,
		GitVersion: KubernetesVersion + "+mainstay-" + own, GitTreeState: unknownTree, BuildDate: unknownDate,
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

func versionInfo(b telemetry.Build) version.Info {
	return version.Info{
		Major: b.Major, Minor: b.Minor,
		EmulationMajor: b.Major, EmulationMinor: b.Minor,
		MinCompatibilityMajor: b.Major, MinCompatibilityMinor: compatibilityMinor,
		GitVersion: b.GitVersion, GitCommit: b.GitCommit, GitTreeState: b.GitTreeState, BuildDate: b.BuildDate,
		GoVersion: runtime.Version(), Compiler: runtime.Compiler, Platform: runtime.GOOS + "/" + runtime.GOARCH,
	}
}
