// Package history implements the retention of history for the backends of package kv. Marks map
// revisions to times. Holds are revisions that readers use. The package performs no I/O and only
// reads the monotonic clock.
package history
