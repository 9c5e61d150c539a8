//go:build race

package race

// Enabled reports whether this program is built with the race detector.
const Enabled = true
