package telemetry

import (
	"runtime"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// Build identifies the binary in /version and in the metric kubernetes_build_info.
type Build struct {
	// Major and Minor are the Kubernetes version of the API.
	Major, Minor string
	// GitVersion is the Kubernetes version as a semantic version with a leading "v", which clients
	// parse.
	GitVersion                         string
	GitCommit, GitTreeState, BuildDate string
}

// NewRegistry returns a new registry with metrics of the Go runtime, the process and the build.
func NewRegistry(build Build) *prometheus.Registry {
	registry := prometheus.NewRegistry()
	info := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "kubernetes_build_info",
		Help: "[ALPHA] A metric with a constant '1' value labeled by major, minor, git version, git commit, git tree state, build date, Go version, and compiler from which Kubernetes was built, and platform on which it is running.",
		ConstLabels: prometheus.Labels{
			"major": build.Major, "minor": build.Minor, "git_version": build.GitVersion, "git_commit": build.GitCommit,
			"git_tree_state": build.GitTreeState, "build_date": build.BuildDate, "go_version": runtime.Version(),
			"compiler": runtime.Compiler, "platform": runtime.GOOS + "/" + runtime.GOARCH,
		},
	})
	info.Set(1)
	registry.MustRegister(info,
		collectors.NewGoCollector(collectors.WithGoCollectorRuntimeMetrics(collectors.MetricsAll)),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return registry
}
