// Package telemetry is the observability of a server: its log (log/slog),
// its metrics under the names of kube-apiserver, the trace of a slow request
// and its health checks. It decides nothing and knows no API; rooms report to
// it, and package server shows what it holds to clients.
package telemetry
