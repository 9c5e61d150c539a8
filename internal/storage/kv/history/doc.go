// Package history implements the retention of history for the backends of package kv. Marks maps revisions to
// times, and Holds protects the revisions that readers use. The package performs no I/O, and reads no clock
// other than the monotonic clock.
package history
