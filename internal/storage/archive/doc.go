// Package archive keeps the versions of objects that a backend has replaced or deleted, for days or
// weeks, with the origin of each change. The history of a backend itself serves watches, and is short.
//
// An archive is a Pebble database of its own. One goroutine (follow.go) watches the backend and writes
// each change. The archive has no write-ahead log: it is flushed periodically, and until then the
// backend holds the changes that a crash would lose (kv.Backend.Hold). An archive that was closed for
// longer than the history of the backend compares all keys (resync.go), and records a gap: the states
// in between are unknown.
//
// Values are stored as the backend has them. Values that are encrypted in the backend are therefore
// encrypted in the archive, with the same key and the same authenticated data.
//
// # Reads
//
// View returns the state at a revision as a read-only kv.Backend (view.go, read.go). RevisionAt converts
// times to revisions. Versions and Changes list what has changed (changes.go).
//
// # Retention
//
// A Policy has a maximum age for each resource and a maximum size for the archive (policy.go, trim.go).
// The floor of a resource is the oldest revision at which its state is complete. Reads before the floor
// return kv.ErrCompacted.
package archive
