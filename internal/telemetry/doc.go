// Package telemetry provides logging (log/slog), metrics with the names of kube-apiserver, traces
// of slow requests, and health checks. Package host serves the metrics and health checks over HTTP.
package telemetry
