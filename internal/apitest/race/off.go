//go:build !race

// Package race reports whether tests run with the race detector.
package race

// Enabled reports whether this program is built with the race detector.
const Enabled = false
