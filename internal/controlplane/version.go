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

// KubernetesVersion is the version of the served API with the prefix "v".
const KubernetesVersion = "v" + kubernetesMajor + "." + kubernetesMinor + ".0"

// Values of /version for a binary that was built outside of a git tree, as in the builds of Kubernetes.
const (
	unknownTree = "archive"
	unknownDate = "1970-01-01T00:00:00Z"
)

// Build returns the build information of this binary. own is the version of Mainstay; it becomes the
// build metadata of GitVersion, because clients parse GitVersion as a semantic version.
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
