//go:build !race

// Package race tells tests whether they run with the race detector.
package race

// Enabled reports whether this program is built with the race detector.
const Enabled = false
