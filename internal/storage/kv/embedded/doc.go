// Package embedded implements kv.Backend on Pebble, in a directory on this machine. It adds revisions and
// history to Pebble's keys, and acknowledges a write after fsync. One process uses a directory at a time.
// Several servers that share objects use package etcd instead.
//
// # Commits
//
// Each transaction is one call of Commit. Concurrent transactions share an fsync (commit.go):
//
//	Commit    evaluate        reads the affected keys, from recent or from disk, without a lock
//	  |         compareLocked checks each Expect against the newest versions, including
//	  |         |             versions that are not durable yet; under Store.mu, no I/O
//	  |         appendLocked  assigns the next revision; adds versions, change log record and
//	  |                       expiries to the batch of mu.pending, the current group
//	  |
//	  |       commitLoop, the only goroutine that writes:
//	  |         nextGroup     moves mu.pending to mu.writing and starts a new group
//	  |         sync          applies one Pebble batch with one fsync of its log, then writes
//	  |                       the revision to ACKNOWLEDGED without fsync
//	  |         publish       updates counts and the published revision: reads see the group;
//	  |                       passes its events to the ring; closes group.done
//	  v
//	waitDurable               waits for group.done, then Commit returns
//
// A group therefore collects transactions while the previous group is synced. Revisions, batches
// in the log and events have the same order. A transaction with an unsatisfied Expect writes
// nothing. If the conflicting write is not durable yet, the transaction waits for it. If the sync
// of a group fails, the published revision does not change: no reader has seen the group, its
// commits are not acknowledged, and their outcome is unknown.
//
// An event contains the Op.Note of its writer. The event and the return of Commit are concurrent.
//
// # Files
//
//   - format: the format on disk.
//   - commit: commits, as described above.
//   - recent: a cache of recently written versions. Transactions are evaluated against it without
//     a disk read, including versions that are not durable yet.
//   - iterators: a pool of Pebble iterators for the evaluation of transactions.
//   - read: point and range reads at a published revision. A revision is published when it is
//     durable.
//   - ring, watch: a watch is a position in the shared ring of recent groups. It reads the change
//     log on disk when it starts at an old revision or falls behind the ring.
//   - compact: deletes history up to a revision, in small steps.
//   - retain, hold: determine the revision to compact to, from the retention period and the held revisions.
//     Marks record which revision was the newest at a time.
//   - pin, retained: pins exempt the state of a prefix at a revision from compaction, even after restarts.
//   - expire: deletes keys with an expired TTL, with ordinary commits.
//   - repair: after a failed disk write, the guard (package pebblefs) discards all later writes. Reads
//     continue, and the store reopens itself when the disk accepts writes again. If the disk is full at
//     startup, the store opens read-only.
//   - reserve: a file that reserves space for deletions on a full disk.
//   - acked, lost: a file with the newest acknowledged revision, to detect lost writes at the next
//     start.
//   - stall: reports slow disk writes while they last.
//   - scheduler: limits Pebble to one compaction at a time.
//   - snapshot: writes the store to a stream, and restores it from a stream.
package embedded
