// Package collector tests the tracing of the server with the receiver of the OpenTelemetry collector.
package collector
