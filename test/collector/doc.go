// Package collector tests that the receiver of the OpenTelemetry collector receives the server's traces.
package collector
