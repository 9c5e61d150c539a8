// Package telemetry provides the log (log/slog), the metrics with the names of kube-apiserver,
// traces of slow requests, and health checks. Other packages report to it, and package host serves
// its data.
package telemetry
