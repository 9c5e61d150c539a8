// Package archive keeps the versions of objects that a backend has replaced or deleted, for days or
// weeks, with the origin of each change. The history of a backend itself serves watches, and is short.
//
// An archive is a separate Pebble database. One goroutine (follow.go) watches the backend and writes each
// change. The archive has no write-ahead log: it is flushed periodically, and until then the backend holds
// the changes that a crash would lose (kv.Backend.Hold). If an archive was closed for longer than the backend
// keeps history, it compares all keys (resync.go) and records a gap. The states in a gap are unknown.
//
// Values are stored as they are in the backend. Values that are encrypted in the backend are therefore
// encrypted in the archive, with the same key and the same authenticated data.
//
// # Reads
//
// View returns the state at a revision as a read-only kv.Backend (view.go, read.go). RevisionAt converts
// times to revisions. Versions and Changes list changes (changes.go).
//
// # Retention
//
// A Policy has a maximum age for each resource and a maximum size for the archive (policy.go, trim.go).
// The floor of a resource is the oldest revision at which its state is complete. Reads before the floor
// return kv.ErrCompacted.
package archive
