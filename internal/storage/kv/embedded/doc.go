// Package embedded keeps kv entries in a directory of this machine: revisions
// and history on top of the Pebble engine, a write being acknowledged once it
// has been fsynced. It is for a single process; what several servers share is
// the business of the etcd backend, and Kubernetes objects that of package
// storage.
//
// How a commit goes (commit.go). Each transaction is one call of Commit; many
// share a sync:
//
//	Commit    evaluate        versions from recent, or from disk without the lock
//	  |         compareLocked every Expect against the newest versions, durable
//	  |         |             or not; under Store.mu, no I/O
//	  |         appendLocked  the next revision; versions, change log, expiries
//	  |                       into the batch of mu.pending, the group that gathers
//	  |
//	  |       commitLoop, the one goroutine that writes, again and again:
//	  |         nextGroup     mu.pending becomes mu.writing; the next one gathers
//	  |         sync          one Pebble batch, one fsync of its log; then the
//	  |                       revision into ACKNOWLEDGED, without one
//	  |         publish       counts and published: reads see the group;
//	  |                       ring: watches get its events; close(group.done)
//	  v
//	waitDurable               returns when group.done is closed: acknowledged
//
// So a group grows while the one before it is being synced, and the order of
// revisions, of batches in the log and of events is the same. A transaction whose
// conditions fail writes nothing; it waits as well where they failed because of
// one that is not durable yet. When a sync fails, published stays where it was:
// what no reader could see is not acknowledged, and the outcome is unknown. An
// event carries the Op.Note of its writer, which learns the revision from Commit
// at about the time that watches learn it from the event.
//
// The concepts, each in the file of its name:
//
//   - format: what stands on disk.
//   - commit: the above.
//   - recent: what was written lately, so that a transaction is evaluated in
//     memory, and against those before it that have not reached the disk.
//   - iterators: a pool of those that transactions are evaluated with.
//   - read: point and range reads at a revision. Reads see published revisions
//     only, and a revision is published when it is durable.
//   - ring, watch: a watch is a position in the shared ring of recent groups, or
//     in the change log on disk when it starts or falls behind the ring.
//   - compact: history is deleted in small steps, up to a revision.
//   - retain, hold: which one that is: marks say what the newest revision was at
//     a time, over all runs, and what readers hold is kept.
//   - expire: keys with a time to live are deleted by ordinary commits.
//   - guard, repair: after a failed disk write nothing more reaches the disk, reads
//     go on, and the store reopens itself when the disk takes writes again. On a
//     disk that is full from the start, a store is opened to be read meanwhile.
//   - reserve: space that is kept for deletions on a disk that is full.
//   - acked, lost: the newest acknowledged revision stands beside the database, so
//     that the loss of a log is found out at the next start.
//   - stall: a write that does not end is reported while it lasts.
//   - scheduler: one compaction of Pebble's runs at a time.
//   - snapshot: a copy of the store as a stream, and a store from a copy.
package embedded
