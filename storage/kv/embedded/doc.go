// Package embedded keeps kv entries in a directory of this machine: revisions
// and history on top of the Pebble engine, a write being acknowledged once it
// has been fsynced. It is for a single process; what several servers share is
// the business of the etcd backend, and Kubernetes objects that of package
// storage.
//
// The concepts, each in the file of its name:
//
//   - format: what stands on disk.
//   - commit: a transaction is decided by its caller, under one lock, and joins
//     the open group. One goroutine writes group after group, each as one batch
//     with one fsync; while it does, the next group gathers.
//   - recent: what was written lately, so that a transaction is decided in
//     memory and before it reached the disk.
//   - read: point and range reads at a revision. Reads see published revisions
//     only, and a revision is published when it is durable.
//   - ring, watch: a watch is a position in the shared ring of recent groups, or
//     in the change log on disk when it starts or falls behind the ring.
//   - compact: history is deleted in small steps, up to a revision.
//   - retain, hold: which one that is: marks say what the newest revision was at
//     a time, over all runs, and what readers hold is kept.
//   - expire: keys with a time to live are deleted by ordinary commits.
//   - guard, mend: after a failed disk write nothing more reaches the disk, reads
//     go on, and the store reopens itself when the disk takes writes again. On a
//     disk that is full from the start, a store is opened to be read meanwhile.
//   - reserve: space that is kept for deletions on a disk that is full.
//   - witness, lost: what was acknowledged last is noted beside the database, so
//     that the loss of a log is found out at the next start.
//   - stall: a write that does not end is reported while it lasts.
//   - scheduler: one compaction of Pebble's runs at a time.
//   - snapshot: a copy of the store as a stream, and a store from a copy.
//
// Imports: storage/kv, storage/kv/history.
package embedded
